"""Tables of measured configs, and their spaces: searches are replayed on them, nothing compiled.

A table is JSON Lines, plain or gzipped. The first line is the header, each further line a config
with its outcome; the format is documented in ``docs/search.md``.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

from tuner.errors import UserError
from tuner.records.outcome import Outcome
from tuner.space import Config, Constraint, Knob, KnobValue, Space

_FORMAT = 'a header {"table": NAME, "knobs": {KNOB: [VALUES]}, "objective": "cycles"}, then rows'
_ABSENT = Constraint("0 == 1", "the table does not list it")


@dataclass(frozen=True)
class Row:
    """One measured config; ``cycles`` are there if the outcome is ``ok``."""

    config: Config
    outcome: Outcome
    cycles: int | None

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        row: dict[str, Any] = {"config": self.config.as_dict(), "outcome": self.outcome.value}
        return row if self.cycles is None else {**row, "cycles": self.cycles}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Row:
        """The inverse of :meth:`as_dict`; raises ``ValueError`` or the like for anything else."""
        outcome = Outcome(data["outcome"])
        cycles = data.get("cycles")
        if (outcome is Outcome.OK) != (cycles is not None):
            raise ValueError("cycles belong to outcome ok, and only there")
        if cycles is not None and not (type(cycles) in (int, float) and 0 < cycles < 1e18):
            raise ValueError(f"cycles {cycles!r}: a positive number is wanted")
        return cls(Config(dict(data["config"])), outcome, cycles)


@dataclass(frozen=True)
class Table:
    """Measured configs of one space. What has no row is infeasible.

    ``starts`` are configs that a job would try first (default, textbook); ``notes`` is whatever
    else the header says, such as the toolchain.
    """

    name: str
    knobs: Mapping[str, tuple[KnobValue, ...]]
    rows: tuple[Row, ...]
    starts: tuple[Config, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def space(self) -> TableSpace:
        """The space whose valid configs are the rows."""
        knobs = tuple(Knob(name, choices, "") for name, choices in self.knobs.items())
        return TableSpace(kernel=self.name, knobs=knobs, listed=tuple(r.config for r in self.rows))

    @cached_property
    def optimum(self) -> int:
        """The fewest cycles of any row."""
        return min(row.cycles for row in self.rows if row.cycles is not None)

    @cached_property
    def results(self) -> Mapping[Config, Row]:
        """Rows by config."""
        return {row.config: row for row in self.rows}


@dataclass(frozen=True)
class TableSpace(Space):
    """A space given by the list of its valid configs.

    A knob is active where the configs that agree on all earlier knobs have it.
    """

    listed: tuple[Config, ...] = ()

    @cached_property
    def _members(self) -> frozenset[Config]:
        return frozenset(self.listed)

    @cached_property
    def _presence(self) -> Mapping[tuple[KnobValue | None, ...], bool]:
        """For each prefix of knob values of a listed config, whether the next knob is active."""
        presence: dict[tuple[KnobValue | None, ...], bool] = {}
        for config in self.listed:
            prefix: tuple[KnobValue | None, ...] = ()
            for knob in self.knobs:
                has = knob.name in config
                if presence.setdefault(prefix, has) != has:
                    raise UserError(
                        f"table {self.kernel}: of configs that agree on all knobs before "
                        f"{knob.name}, some have it and some do not",
                        accepted="a knob whose presence depends on the knobs listed before it",
                        next_step="list the knob it depends on first in the header's knobs",
                    )
                prefix = (*prefix, config.get(knob.name))
        return presence

    def walk(self, values: Mapping[str, KnobValue]) -> Iterator[Knob]:
        prefix: tuple[KnobValue | None, ...] = ()
        for knob in self.knobs:
            # Beyond what is listed the config is infeasible whatever the rest is.
            if self._presence.get(prefix, True):
                yield knob
            prefix = (*prefix, values.get(knob.name))

    def violation(self, values: Mapping[str, KnobValue]) -> Constraint | None:
        return None if Config(values) in self._members else _ABSENT

    def sample(self, random: Random) -> Config:
        return random.choice(self.listed)

    def __iter__(self) -> Iterator[Config]:
        return iter(self.listed)


def write_table(path: Path, table: Table) -> None:
    """Writes ``table``, gzipped if ``path`` ends so; the same table gives the same bytes."""
    header: dict[str, Any] = {
        "table": table.name,
        "knobs": {name: list(choices) for name, choices in table.knobs.items()},
        "objective": "cycles",
    }
    if table.starts:
        header["starts"] = [config.as_dict() for config in table.starts]
    lines = [{**header, **table.notes}, *(row.as_dict() for row in table.rows)]
    data = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, mtime=0)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_bytes(data)
    part.replace(path)


def read_table(path: Path) -> Table:
    """Reads a table; ``UserError`` names the file, the line and what is wrong with it."""
    lines = _text(path).splitlines()
    if not lines:
        raise UserError(f"table {path} is empty", accepted=_FORMAT)
    name, knobs, header = _header(path, lines[0])
    rows: dict[Config, Row] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line.strip():
            continue
        try:
            row = Row.from_dict(json.loads(line))
            _require_known(row.config, knobs)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise _bad_line(path, number, error) from None
        if row.config in rows:
            raise _bad_line(path, number, ValueError("the config has a row already"))
        rows[row.config] = row
    if not any(row.cycles for row in rows.values()):
        raise UserError(f"table {path} has no row with outcome ok", accepted=_FORMAT)
    starts = _starts(path, header, rows)
    known = {"table", "knobs", "objective", "starts"}
    notes = {key: value for key, value in header.items() if key not in known}
    table = Table(name, knobs, tuple(rows.values()), starts, notes)
    next(iter(table.space.walk({})), None)  # refuses knobs that come and go for no reason
    return table


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"table {path} cannot be read: {reason}") from None
    except (UnicodeDecodeError, EOFError, zlib.error):
        raise UserError(
            f"table {path} is not text, or is a damaged gzip file",
            accepted="JSON Lines, plain or gzip",
        ) from None


def _header(
    path: Path, line: str
) -> tuple[str, dict[str, tuple[KnobValue, ...]], Mapping[str, Any]]:
    try:
        header = json.loads(line)
        name = header["table"]
        knobs = {str(knob): tuple(choices) for knob, choices in header["knobs"].items()}
        if header.get("objective", "cycles") != "cycles":
            raise ValueError(f"objective {header['objective']!r}: only cycles are known")
        if not isinstance(name, str) or not knobs:
            raise ValueError("table wants a name, knobs at least one knob")
        for knob, choices in knobs.items():
            Knob(knob, choices, "")
    except UserError as error:
        accepted = error.accepted or _FORMAT
        raise UserError(f"table {path}, line 1: {error.message}", accepted=accepted) from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _bad_line(path, 1, error) from None
    return name, knobs, header


def _starts(
    path: Path, header: Mapping[str, Any], rows: Mapping[Config, Row]
) -> tuple[Config, ...]:
    try:
        starts = tuple(Config(dict(values)) for values in header.get("starts", ()))
        if any(start not in rows for start in starts):
            raise ValueError("a config of starts has no row")
    except (ValueError, TypeError) as error:
        raise _bad_line(path, 1, error) from None
    return starts


def _require_known(config: Config, knobs: Mapping[str, tuple[KnobValue, ...]]) -> None:
    for knob, value in config.items():
        if knob not in knobs:
            raise ValueError(f"knob {knob} is not in the header")
        if isinstance(value, bool) or value not in knobs[knob]:
            raise ValueError(f"{knob}={value!r} is none of the header's values")


def _bad_line(path: Path, number: int, error: Exception) -> UserError:
    missing = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return UserError(f"table {path}, line {number}: {missing}", accepted=_FORMAT)
