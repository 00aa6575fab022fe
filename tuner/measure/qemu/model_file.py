"""A target's file of timing parameters: read, and broken entries named with their line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import ToolchainError
from tuner.identity import digest_of_bytes

MODEL_VARIABLE = "HVXTUNE_TIMING_MODEL"
"""Names a file of timing parameters to use instead of the packaged one: a calibrated one."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class ModelFile:
    """A file as read. ``digest`` names its content."""

    path: Path
    text: str
    data: Mapping[str, Any]

    @property
    def digest(self) -> str:
        return digest_of_bytes(self.text.encode())

    def broken(self, reason: str) -> ToolchainError:
        """The error to raise for a file that cannot be used."""
        return ToolchainError(
            f"the timing parameters in {self.path} cannot be used: {reason}",
            next_step=(
                f"repair the file, or unset {MODEL_VARIABLE}"
                if os.environ.get(MODEL_VARIABLE)
                else "install hvxtune again"
            ),
        )

    def bad_entry(self, error: BadEntryError) -> ToolchainError:
        """The error to raise for an entry that is not accepted: names its line."""
        return self.broken(f"{error} (at line {error.line_in(self.text)})")

    def table(self, name: str) -> Mapping[str, Any]:
        """The table ``[name]``; ``BadEntryError`` if there is none."""
        found = self._section(name)
        if not isinstance(found, Mapping):
            raise BadEntryError(
                f"{name} = {found!r}; accepted: a table [{name}]", rf"^\s*{name}\s*="
            )
        return found

    def tables(self, name: str) -> list[Mapping[str, Any]]:
        """All tables ``[[name]]``; ``BadEntryError`` if there are none."""
        found = self._section(name)
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            raise BadEntryError(
                f"'{name}' is no list of tables; accepted: tables [[{name}]]",
                rf"^\s*(\[\s*{name}[\].]|{name}\s*=)",
            )
        return found

    def _section(self, name: str) -> Any:
        if name not in self.data:
            raise BadEntryError(f"section '{name}' is missing", r"\Z")
        return self.data[name]


class BadEntryError(Exception):
    """A value that is not accepted, with a pattern that finds its line."""

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self._pattern = pattern

    def line_in(self, text: str) -> int:
        """The line of the entry, counted from 1; of what is missing, the last one."""
        found = re.search(self._pattern, text, re.MULTILINE)
        return text[: found.end()].rstrip("\n").count("\n") + 1 if found else 1


def model_path(arch: str) -> Path:
    """The file for ``arch`` (``v66``): the one of ``$HVXTUNE_TIMING_MODEL``, else the packaged one.

    Archs without a file of their own are timed like the nearest older one that has one; all are
    the same in-order machine.
    """
    given = os.environ.get(MODEL_VARIABLE)
    if given:
        return Path(given).expanduser().absolute()
    known = sorted(_FOLDER.glob("v*.toml"), key=lambda path: int(path.stem[1:]))
    older = [path for path in known if int(path.stem[1:]) <= int(arch[1:])]
    return older[-1] if older else known[0]


def read_model_file(path: Path) -> ModelFile:
    """Reads ``path``; ``ToolchainError`` names the file and the line that is no TOML."""
    try:
        text = path.read_text()
        return ModelFile(path, text, tomllib.loads(text))
    except OSError as error:
        raise ModelFile(path, "", {}).broken(str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelFile(path, "", {}).broken(str(error)) from None
