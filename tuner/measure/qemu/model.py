"""The timing model of a target, out of one file of timing parameters (``v66.toml``).

The file holds the class table (when in the pipeline instructions read and write), the memory
hierarchy that the plugin simulates (its sizes come from the target), and a value, bounds and a
source for the cost of each event, which calibration can fit. It says what every number means and
where it comes from. Broken entries are named with their line.
"""

from __future__ import annotations

import os
import re
import struct
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from tuner.errors import InternalError, ToolchainError
from tuner.identity import digest_of_bytes
from tuner.measure.explanation import LatencyClass
from tuner.measure.qemu.events import LEADS, WINDOWS
from tuner.problem.target import Target

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
        """The table ``[name]``; ``BadEntryError`` without one."""
        found = self._section(name)
        if not isinstance(found, Mapping):
            raise BadEntryError(
                f"{name} = {found!r}; accepted: a table [{name}]", rf"^\s*{name}\s*="
            )
        return found

    def tables(self, name: str) -> list[Mapping[str, Any]]:
        """All tables ``[[name]]``; ``BadEntryError`` without one."""
        found = self._section(name)
        if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
            raise BadEntryError(
                f"'{name}' is not a list of tables; accepted: tables [[{name}]]",
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
        """The line of the entry, counted from 1; the last line for a missing entry."""
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
    """Reads ``path``; ``ToolchainError`` names the file and the line that is not TOML."""
    try:
        text = path.read_text()
        return ModelFile(path, text, tomllib.loads(text))
    except OSError as error:
        raise ModelFile(path, "", {}).broken(str(error.strerror)) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelFile(path, "", {}).broken(str(error)) from None


@dataclass(frozen=True)
class Parameters:
    """Costs in packet times of one hardware thread, unless said otherwise."""

    mispredict: float
    """A conditional jump that goes the rarer of its two ways."""
    loop_end: float
    """A packet that closes a hardware loop."""
    line_split: float
    """A vector access that touches two lines."""
    l1_miss: float
    """A scalar load that L1 does not have and L2 has."""
    l2_access: float
    """A line of L2 that a vector load or store touches, beyond the pipeline's latency."""
    vtcm_access: float
    """The same for VTCM."""
    gather: float
    """A vgather, beyond its issue."""
    scatter: float
    """A vscatter, beyond its issue."""
    ddr_latency: float
    """From asking DDR for a line to having it."""
    ddr_overlap: float
    """The time after a load that waits for DDR in which other loads wait together with it."""
    ddr_bandwidth: float
    """Bytes a packet time between DDR and L2, both directions together, shared by all threads."""
    l2_bandwidth: float
    """Lines a packet time that all threads together get from L2."""
    parallel_loop: float
    """Beginning and ending a parallel loop."""
    task: float
    """Beginning one task of a parallel loop."""


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter as its file gives it: ``low`` and ``high`` bound what calibration may find."""

    value: float
    low: float
    high: float
    source: str

    @property
    def assumed(self) -> bool:
        """Whether nobody has published the number."""
        return self.source.startswith("assumed")


ParameterSpecs = Mapping[str, ParameterSpec]

PARAMETER_NAMES = tuple(field.name for field in fields(Parameters))
"""All parameters, in the order of the fields."""

_MOST = {"ddr_latency": float(LEADS[-1]), "ddr_overlap": float(WINDOWS[-1])}
_LEAST = {"ddr_overlap": float(WINDOWS[0]), "ddr_bandwidth": 1 / 16, "l2_bandwidth": 1 / 16}
"""Beyond these, the counted events do not determine the cost."""


def specs_of(file: ModelFile) -> ParameterSpecs:
    """The parameters in ``file``; ``ToolchainError`` names the line of a broken one."""
    try:
        table = file.table("parameters")
        for name in table:
            if name not in PARAMETER_NAMES:
                raise BadEntryError(
                    f"unknown parameter {name!r}; accepted: {', '.join(PARAMETER_NAMES)}",
                    rf"^\[parameters\.{re.escape(name)}\]",
                )
        return {name: _spec(name, table.get(name)) for name in PARAMETER_NAMES}
    except BadEntryError as error:
        raise file.bad_entry(error) from None


def parameters_of(specs: ParameterSpecs) -> Parameters:
    """The values alone."""
    return Parameters(**{name: specs[name].value for name in PARAMETER_NAMES})


def _spec(name: str, entry: Any) -> ParameterSpec:
    place = f"parameters.{name}"
    if entry is None:
        raise BadEntryError(f"parameter {name!r} is missing", r"\Z")
    least, most = _LEAST.get(name, 0.0), _MOST.get(name, 1e6)
    low = number(place, entry, "low", least, most)
    high = number(place, entry, "high", low, most)
    value = number(place, entry, "value", low, high)
    return ParameterSpec(value, low, high, source(place, entry, ("value", "low", "high", "source")))


def number(place: str, entry: Any, key: str, least: float, most: float) -> float:
    """The number under ``key`` of the table ``[place]``; ``BadEntryError`` if it is none."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise BadEntryError(
            f"{key} = {value!r} in [{place}]; accepted: {least:g} to {most:g}", _line(place, key)
        )
    return float(value)


def source(place: str, entry: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    """The source of a number, which must be told; no other keys than ``keys`` may be there."""
    for key in entry:
        if key not in keys:
            raise BadEntryError(f"unknown key {key!r} in [{place}]", _line(place, key))
    told = entry.get("source")
    if not isinstance(told, str) or not told.strip():
        raise BadEntryError(
            f"[{place}] tells no source; accepted: where the number is published, or 'assumed'",
            _line(place, "source"),
        )
    return told


def _line(place: str, key: str) -> str:
    """Finds ``key`` in the table ``[place]``, or at least its heading."""
    heading = rf"^\[{re.escape(place)}\]"
    return rf"{heading}(?:(?!\n\[)[\s\S])*?\n\s*{re.escape(key)}\s*=|{heading}"


SYSTEM = struct.Struct(f"<12I{len(WINDOWS)}I{len(LEADS)}I")
"""``struct memory_system`` of plugin/session.h."""


@dataclass(frozen=True)
class Hierarchy:
    """The numbers that decide events. Line sizes in bytes, distances in packet times."""

    l1_line_bytes: int
    l1_ways: int
    l2_line_bytes: int
    l2_ways: int
    store_to_load: int
    """Between a vector store and a load of the same line, so that the load does not wait."""
    gather_to_load: int
    """Between a gather and a load of what it gathered."""
    l1_fetch: int
    """Between a dcfetch and the load that finds its line in L1."""
    line_transfer: int
    """Between the arrivals of two lines of one l2fetch."""

    def packed(self, target: Target) -> bytes:
        """As the plugin reads it. Raises ``InternalError`` if the sizes make no whole sets."""
        return SYSTEM.pack(
            self.l1_line_bytes,
            _sets(target.l1d_bytes, self.l1_line_bytes, self.l1_ways),
            self.l1_ways,
            self.l2_line_bytes,
            _sets(target.l2_bytes, self.l2_line_bytes, self.l2_ways),
            self.l2_ways,
            target.vector_bytes,
            target.vtcm_bytes,
            self.store_to_load,
            self.gather_to_load,
            self.l1_fetch,
            self.line_transfer,
            *WINDOWS,
            *LEADS,
        )


def hierarchy_of(file: ModelFile) -> Hierarchy:
    """The hierarchy in ``file``; ``ToolchainError`` names the line of a broken entry."""
    names = [field.name for field in fields(Hierarchy)]
    values: dict[str, int] = {}
    try:
        table = file.table("hierarchy")
        for name in (*names, *table):
            place = f"hierarchy.{name}"
            if name not in names:
                heading = rf"^\[{re.escape(place)}\]"
                raise BadEntryError(
                    f"unknown entry [{place}]; accepted: {', '.join(names)}", heading
                )
            if name not in table:
                raise BadEntryError(f"[{place}] is missing", r"\Z")
            values[name] = _whole(place, name, number(place, table[name], "value", 1, 4096))
            source(place, table[name], ("value", "source"))  # each must name one
    except BadEntryError as error:
        raise file.bad_entry(error) from None
    return Hierarchy(**values)


def _whole(place: str, name: str, value: float) -> int:
    power = name.endswith("_bytes")
    if value != int(value) or (power and int(value) & (int(value) - 1)):
        kind = "powers of two" if power else "whole numbers"
        raise BadEntryError(
            f"value = {value:g} in [{place}]; accepted: {kind}",
            rf"^\[{re.escape(place)}\][^\[]*?\n\s*value\s*=",
        )
    return int(value)


def _sets(cache_bytes: int, line_bytes: int, ways: int) -> int:
    sets, left = divmod(cache_bytes, line_bytes * ways)
    if left or not sets:
        raise InternalError(
            f"a cache of {cache_bytes} bytes has no whole sets of {ways} lines of {line_bytes}"
        )
    return sets


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
_STAGE_TITLES = {
    "writes": "result",
    "reads": "sources",
    "accumulates": "accumulator",
    "scalars": "scalar sources",
    "predicates": "predicates",
}
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
_ACCESSES = {
    "scalar load": {"result": "scalar_load", "address": "base"},
    "vector load": {"result": "vector_load", "address": "base"},
    "scalar store": {"stored data": "scalar_data", "address": "base"},
    "vector store": {"stored data": "vector_data", "address": "base"},
    "unaligned vector store": {"stored data": "unaligned_vector_data", "address": "base"},
    "vector gather": {"offsets": "vector_data", "address": "base"},
    "vector scatter": {"stored data": "vector_data", "address": "base"},
}
"""Loads and stores, and the stages in ``[memory]`` that time them."""
MAX_STAGE = 15


@dataclass(frozen=True)
class Rules:
    """The class table of one target as the plugin reads it.

    ``packed`` holds ``count`` rules, ``memory`` the stages of loads and stores. ``causes`` names
    what stalls are booked under, by the number the plugin gives. ``digest`` is that of the file.
    ``classes`` are the rules for people, each once, then the loads and stores.
    """

    packed: bytes
    count: int
    memory: bytes
    causes: tuple[str, ...]
    digest: str
    classes: tuple[LatencyClass, ...] = ()

    def name_of(self, mnemonic: str, unit: str, forms: int = 0) -> str:
        """The name of the rule that an instruction falls under, found as the plugin does.

        ``unit`` is ``vector`` or ``scalar``, ``forms`` a sum of :data:`FORMS`.
        """
        row = self._row_of(mnemonic, unit, forms)
        return self.causes[row[-1]] if row else ""

    def class_of(self, mnemonic: str, unit: str, forms: int = 0) -> int | None:
        """The place in ``classes`` of that rule; ``None`` if none fits."""
        row = self._row_of(mnemonic, unit, forms)
        return self.classes.index(_class_of_row(row, self.causes, self._source)) if row else None

    def access_class(self, name: str) -> int:
        """The place in ``classes`` of a load or store, ``vector load`` say."""
        return next(i for i, each in enumerate(self.classes) if each.name == name)

    @property
    def _source(self) -> str:
        return self.classes[0].source

    def _row_of(self, mnemonic: str, unit: str, forms: int) -> tuple[int, ...] | None:
        for encoded, of_unit, needs, *rest in _RULE.iter_unpack(self.packed):
            pattern: str = encoded.rstrip(b"\0").decode()
            fits = mnemonic.startswith(pattern[:-1]) if pattern[-1] == "*" else mnemonic == pattern
            if fits and of_unit == _UNITS[unit] and not needs & ~forms:
                return (needs, *rest)
        return None


def _class_of_row(row: Sequence[int], causes: Sequence[str], source: str) -> LatencyClass:
    """Of the forms, stages and cause of a packed rule."""
    needs, *stages, cause = row
    named = [form.replace("_", " ") for form, bit in FORMS.items() if needs & bit]
    titles = [_STAGE_TITLES[stage] for stage in _STAGES]
    return LatencyClass(causes[cause], dict(zip(titles, stages, strict=True)), source, tuple(named))


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
    told = str(file.data.get("source", file.path.name))
    classes = [_class_of_row(row[2:], causes, told) for row in map(_RULE.unpack, rows)]
    at = dict(zip(_MEMORY_STAGES, stages, strict=True))
    classes += [
        LatencyClass(name, {title: at[stage] for title, stage in parts.items()}, told)
        for name, parts in _ACCESSES.items()
    ]
    return Rules(
        packed=b"".join(rows),
        count=len(rows),
        memory=_MEMORY.pack(*stages, causes.index("address"), causes.index("store data")),
        causes=tuple(causes),
        digest=file.digest,
        classes=tuple(each for i, each in enumerate(classes) if each not in classes[:i]),
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


@dataclass(frozen=True)
class TimingModel:
    """Everything that turns a run into cycles. ``digest`` is that of the file."""

    rules: Rules
    hierarchy: Hierarchy
    specs: ParameterSpecs
    digest: str

    @property
    def parameters(self) -> Parameters:
        """The costs of events."""
        return parameters_of(self.specs)


def find_model(arch: str) -> TimingModel:
    """The model for ``arch`` (``v66``); ``ToolchainError`` names a broken line of its file."""
    return load_model(model_path(arch))


@cache
def load_model(path: Path) -> TimingModel:
    """The model in the file at ``path``, checked; ``ToolchainError`` names the line."""
    file = read_model_file(path)
    return TimingModel(rules_of(file), hierarchy_of(file), specs_of(file), file.digest)
