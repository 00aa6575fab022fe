"""The timing model of a target, out of one file of timing parameters (``v66.toml``).

The file holds the class table (when in the pipeline instructions read and write), the memory
hierarchy that the plugin simulates (its sizes come from the target), and a value, bounds and a
source for the cost of each event, which calibration can fit. It says what every number means and
where it comes from. Broken entries are named with their line.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tuner.errors import InternalError, ToolchainError, UserError
from tuner.identity import digest_of_bytes
from tuner.measure.explanation import LatencyClass
from tuner.measure.qemu.events import LEADS, WINDOWS
from tuner.problem.target import Target
from tuner.records.tables import Strict, fault_at, read_tables

MODEL_VARIABLE = "HVXTUNE_TIMING_MODEL"
"""Names a file of timing parameters to use instead of the packaged one: a calibrated one."""
_FOLDER = Path(__file__).parent


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


_Cost = Annotated[float, Field(ge=0, le=1e6)]
_Source = Annotated[str, Field(pattern=r"\S")]
"""Where a number is published, or ``assumed``."""


class ParameterSpec(Strict):
    """A parameter as its file gives it: ``low`` and ``high`` bound what calibration may find."""

    value: _Cost
    low: _Cost
    high: _Cost
    source: _Source

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


def parameters_of(specs: ParameterSpecs) -> Parameters:
    """The values alone."""
    return Parameters(**{name: specs[name].value for name in PARAMETER_NAMES})


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


_Stage = Annotated[int, Field(ge=0, le=15)]


class _Rule(Strict):
    name: str
    mnemonics: list[Annotated[str, Field(min_length=1, max_length=_MNEMONIC_BYTES - 1)]]
    forms: list[str] = Field(default=[])
    writes: _Stage
    reads: _Stage
    accumulates: _Stage | None = None
    scalars: _Stage | None = None
    predicates: _Stage | None = None

    def packed(self, unit: str, cause: int) -> list[bytes]:
        """As the plugin reads it, for each mnemonic. Stages that are left out are that of reads."""
        forms = sum(FORMS[form] for form in self.forms)
        given = [getattr(self, name) for name in _STAGES]
        stages = [self.reads if stage is None else stage for stage in given]
        return [
            _RULE.pack(mnemonic.encode(), _UNITS[unit], forms, *stages, cause)
            for mnemonic in self.mnemonics
        ]


class _Size(Strict):
    value: int = Field(ge=1, le=4096)
    source: _Source


_SECTIONS = {
    "parameters": PARAMETER_NAMES,
    "hierarchy": tuple(field.name for field in fields(Hierarchy)),
    "memory": _MEMORY_STAGES,
}
"""The keys of tables that have all of them and no others."""


class _Tables(Strict):
    source: str = ""
    memory: dict[str, _Stage]
    vector: list[_Rule]
    scalar: list[_Rule]
    hierarchy: dict[str, _Size]
    parameters: dict[str, ParameterSpec]


@dataclass(frozen=True)
class ModelFile:
    """A file as read and checked. ``digest`` names its content."""

    path: Path
    text: str
    tables: _Tables

    @property
    def digest(self) -> str:
        return digest_of_bytes(self.text.encode())

    @property
    def specs(self) -> ParameterSpecs:
        """The parameters, with bounds and sources."""
        return {name: self.tables.parameters[name] for name in PARAMETER_NAMES}

    @property
    def hierarchy(self) -> Hierarchy:
        """The hierarchy."""
        return Hierarchy(**{name: size.value for name, size in self.tables.hierarchy.items()})

    @property
    def rules(self) -> Rules:
        """The class table."""
        causes: list[str] = ["address", "store data"]
        rows: list[bytes] = []
        for unit, rules in (("vector", self.tables.vector), ("scalar", self.tables.scalar)):
            for rule in rules:
                if rule.name not in causes:
                    causes.append(rule.name)
                rows += rule.packed(unit, causes.index(rule.name))
        stages = self.tables.memory
        told = self.tables.source or self.path.name
        classes = [_class_of_row(row[2:], causes, told) for row in map(_RULE.unpack, rows)]
        classes += [
            LatencyClass(name, {title: stages[stage] for title, stage in parts.items()}, told)
            for name, parts in _ACCESSES.items()
        ]
        own = (causes.index("address"), causes.index("store data"))
        return Rules(
            packed=b"".join(rows),
            count=len(rows),
            memory=_MEMORY.pack(*(stages[name] for name in _MEMORY_STAGES), *own),
            causes=tuple(causes),
            digest=self.digest,
            classes=tuple(each for i, each in enumerate(classes) if each not in classes[:i]),
        )


def read_model_file(path: Path) -> ModelFile:
    """Reads ``path``; ``ToolchainError`` names the file, and the line of a broken entry."""
    try:
        return parsed(path, path.read_text())
    except OSError as error:
        reason = str(error.strerror)
    except UnicodeDecodeError as error:
        reason = str(error)
    except UserError as error:
        reason = f"{error.message}; accepted: {error.accepted}"
    raise ToolchainError(
        f"the timing parameters in {path} cannot be used: {reason}",
        next_step=(
            f"repair the file, or unset {MODEL_VARIABLE}"
            if os.environ.get(MODEL_VARIABLE)
            else "install hvxtune again"
        ),
    )


def parsed(path: Path, text: str) -> ModelFile:
    """The file ``path``, which has this ``text``; ``UserError`` for the first broken entry."""
    place = path.name
    file = ModelFile(path, text, read_tables(_Tables, text, place))
    for section, names in _SECTIONS.items():
        given = getattr(file.tables, section)
        for name in (*given, *names):
            if name not in names or name not in given:
                why = f"{section}.{name} is {'missing' if name in names else 'unknown'}"
                raise fault_at([section, name], text, place, why, ", ".join(names))
    for name, spec in file.specs.items():
        least, most = _LEAST.get(name, 0.0), _MOST.get(name, 1e6)
        for key, low, high in (
            ("low", least, most),
            ("high", spec.low, most),
            ("value", spec.low, spec.high),
        ):
            if not low <= getattr(spec, key) <= high:
                why = f"parameters.{name}.{key} = {getattr(spec, key):g}"
                accepted = f"{low:g} to {high:g}"
                raise fault_at(["parameters", name, key], text, place, why, accepted)
    for name, size in file.tables.hierarchy.items():
        if name.endswith("_bytes") and size.value & (size.value - 1):
            where = ["hierarchy", name, "value"]
            told = f"hierarchy.{name}.value = {size.value}"
            raise fault_at(where, text, place, told, "powers of two")
    for unit in ("vector", "scalar"):
        for number, rule in enumerate(getattr(file.tables, unit)):
            for form in rule.forms:
                if form not in FORMS:
                    told = f"unknown form {form!r}"
                    raise fault_at([unit, number, "forms"], text, place, told, ", ".join(FORMS))
    return file


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
    return TimingModel(file.rules, file.hierarchy, file.specs, file.digest)
