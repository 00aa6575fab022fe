"""The class table of a target: when in the pipeline instructions read and write, for the plugin.

``v66.toml`` says what every number means and where it comes from.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tuner.measure.qemu.model_file import BadEntryError, ModelFile, model_path, read_model_file

_MNEMONIC_BYTES = 20
_RULE = struct.Struct(f"<{_MNEMONIC_BYTES}s8B")
"""``struct rule`` of plugin/packet.h."""
_MEMORY = struct.Struct("<10B")
"""``struct memory_stages`` of plugin/packet.h."""

FORMS = {
    "accumulates": 1,
    "saturates": 2,
    "halfwords": 4,
    "new_predicate": 8,
    "widens": 16,
    "writes_control": 32,
    "reads_control": 64,
}
_UNITS = {"scalar": 0, "vector": 1}
_STAGES = ("writes", "reads", "accumulates", "scalars", "predicates")
_MEMORY_STAGES = (
    "base",
    "modifier",
    "scalar_data",
    "vector_data",
    "unaligned_vector_data",
    "scalar_load",
    "vector_load",
    "updated_base",
)
MAX_STAGE = 15


@dataclass(frozen=True)
class Rules:
    """The class table of one target as the plugin reads it.

    ``packed`` holds ``count`` rules, ``memory`` the stages of loads and stores. ``causes`` names
    what stalls are booked under, by the number the plugin gives. ``digest`` is that of the file.
    """

    packed: bytes
    count: int
    memory: bytes
    causes: tuple[str, ...]
    digest: str

    def name_of(self, mnemonic: str, unit: str, forms: int = 0) -> str:
        """The name of the rule that an instruction falls under, found as the plugin does.

        ``unit`` is ``vector`` or ``scalar``, ``forms`` a sum of :data:`FORMS`.
        """
        for encoded, of_unit, needs, *_, cause in _RULE.iter_unpack(self.packed):
            pattern: str = encoded.rstrip(b"\0").decode()
            fits = mnemonic.startswith(pattern[:-1]) if pattern[-1] == "*" else mnemonic == pattern
            if fits and of_unit == _UNITS[unit] and not needs & ~forms:
                return self.causes[int(cause)]
        return ""


def find_rules(arch: str) -> Rules:
    """The rules for ``arch`` (``v66``)."""
    return load_rules(model_path(arch))


@cache
def load_rules(path: Path) -> Rules:
    """Reads and checks a parameter file; ``ToolchainError`` names the file and the line."""
    return rules_of(read_model_file(path))


def rules_of(file: ModelFile) -> Rules:
    """The rules in ``file``; ``ToolchainError`` names the line of a broken one."""
    causes: list[str] = ["address", "store data"]
    rows: list[bytes] = []
    try:
        for unit in ("vector", "scalar"):
            for entry in file.tables(unit):
                rows += _pack_rule(unit, entry, causes)
        memory = file.table("memory")
        stages = [_stage(memory, name) for name in _MEMORY_STAGES]
    except BadEntryError as error:
        raise file.bad_entry(error) from None
    return Rules(
        packed=b"".join(rows),
        count=len(rows),
        memory=_MEMORY.pack(*stages, causes.index("address"), causes.index("store data")),
        causes=tuple(causes),
        digest=file.digest,
    )


def _stage(table: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_STAGE:
        shown = re.escape(str(value))
        raise BadEntryError(
            f"{name} = {value!r}; accepted: 0 to {MAX_STAGE}",
            rf"^\s*{name}\s*=\s*[\"']?{shown}" if value is not None else r"\Z",
        )
    return value


def _texts(entry: Mapping[str, Any], key: str, rule: str) -> list[str]:
    texts = entry.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadEntryError(
            f"{key} = {texts!r} in rule {rule!r}; accepted: a list of texts",
            rf"^\s*{key}\s*=\s*(?!\[)",
        )
    return texts


def _pack_rule(unit: str, entry: Mapping[str, Any], causes: list[str]) -> list[bytes]:
    name = entry.get("name")
    if not isinstance(name, str):
        raise BadEntryError(f"a rule of [[{unit}]] has no name", rf"^\[\[{unit}\]\]")
    for key in entry:
        if key not in ("name", "mnemonics", "forms", *_STAGES):
            raise BadEntryError(f"unknown key {key!r} in rule {name!r}", rf"^\s*{key}\s*=")
    forms = 0
    for form in _texts(entry, "forms", name):
        if form not in FORMS:
            raise BadEntryError(
                f"unknown form {form!r}; accepted: {', '.join(FORMS)}",
                rf"[\"']{re.escape(str(form))}[\"']",
            )
        forms |= FORMS[form]
    if name not in causes:
        causes.append(name)
    reads = _stage(entry, "reads")
    stages = [_stage(entry, "writes"), reads]
    stages += [_stage(entry, key, reads) for key in _STAGES[2:]]
    rows = []
    for mnemonic in _texts(entry, "mnemonics", name):
        encoded = mnemonic.encode()
        if not 0 < len(encoded) < _MNEMONIC_BYTES:
            raise BadEntryError(
                f"mnemonic {mnemonic!r} in rule {name!r}; accepted: 1 to {_MNEMONIC_BYTES - 1} "
                "characters",
                re.escape(f'"{mnemonic}"'),
            )
        rows.append(_RULE.pack(encoded, _UNITS[unit], forms, *stages, causes.index(name)))
    return rows
