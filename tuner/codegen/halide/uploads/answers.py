"""Everything a contained process may say about an upload, read without believing any of it.

JSON is read as the types of the records say, and ``ValueError`` raised unless it is what such a
process writes: exactly these fields, names as Halide makes them, numbers in range. A process that
gives up says why by its exit status.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from tuner.program.demands import Demands
from tuner.space.derivation.facts import (
    EVERY_DIMENSION,
    PipelineFacts,
)

EXIT_REFUSED = 3
"""Exit status of a process in which Halide refuses the bytes; the answer then holds the reason."""
EXIT_NOT_TUNABLE = 4
"""The same where the bytes are a pipeline, but not one that can be tuned."""
EXIT_NO_MEMORY = 5
"""Of a process that may take no more memory."""

MOST_STAGES = 1024
MOST_INPUTS = 256
MOST_OUTPUTS = 256
MOST_DIMENSIONS = 32
MOST_UPDATES = 4096

MOST_TUNED_STAGES = 64
"""More make spaces that no search gets through."""
MOST_BUFFERS = 16
MOST_BUFFER_DIMENSIONS = 6
"""Both are what one call of the harness passes (``image.h``)."""
_MOST_EXTENT = 1 << 27
_MOST = {
    "stages": MOST_STAGES,
    "inputs": MOST_INPUTS,
    "outputs": MOST_OUTPUTS,
    "types": MOST_OUTPUTS,
    "dimensions": MOST_DIMENSIONS,
    "updates": MOST_UPDATES,
    "reads": MOST_TUNED_STAGES,
    "operations": 1 << 24,
    "params": MOST_BUFFERS * (MOST_BUFFER_DIMENSIONS + 3),
    **{one.name: 1 << 60 for one in fields(Demands)},
}
"""The most elements of a list, or greatest number, by the name of the field; of parameters the
extents of each buffer, whether it is loose, and the ends of its elements' range."""
_MOST_TEXT = 500
_TEXTS = frozenset(("doc", "overflow"))
_SIGNED = frozenset(("mins", "ends", "value", "default", "minimum", "maximum"))
_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_NAME = re.compile(rf"[A-Za-z0-9_.$]{{0,200}}|{re.escape(EVERY_DIMENSION)}")


class NotTunableError(Exception):
    """The pipeline is not of the kind that can be tuned; the text says why."""


@dataclass(frozen=True)
class PipelineStage:
    """A Func. ``dimensions`` names its loops, innermost first; ``types`` are of its values (one
    for each element of a tuple); ``updates`` counts its update definitions."""

    name: str
    dimensions: tuple[str, ...]
    types: tuple[str, ...]
    updates: int


@dataclass(frozen=True)
class PipelineInput:
    """A buffer (with ``dimensions``) or a scalar (``dimensions`` 0, not ``is_buffer``)."""

    name: str
    type: str
    dimensions: int
    is_buffer: bool


@dataclass(frozen=True)
class PipelineDescription:
    """The stages of an upload in the order of computation, without the wrappers that Halide puts
    around inputs, its inputs and its outputs."""

    stages: tuple[PipelineStage, ...]
    inputs: tuple[PipelineInput, ...]
    outputs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> PipelineDescription:
        """The inverse of :meth:`as_dict`; ``ValueError`` also for more than any pipeline has."""
        found: PipelineDescription = _read(cls, data)
        if not found.outputs:
            raise ValueError("it has no output")
        missing = set(found.outputs) - {stage.name for stage in found.stages}
        if missing:
            raise ValueError(f"no stage computes its output {min(missing)}")
        return found


@dataclass(frozen=True)
class SizeParam:
    """A choice of those who tune the pipeline: an extent, of which a ``default`` of 0 means as
    needed, the value of a scalar, or whether a buffer is loose. ``minimum`` and ``maximum`` are
    accepted; one that ``is_optional`` is not part of a workload at its default."""

    name: str
    default: int
    doc: str
    minimum: int
    maximum: int
    is_extent: bool
    is_optional: bool


@dataclass(frozen=True)
class Analysis:
    """The facts of a pipeline at one size, and the names of the sizes that can be chosen.
    ``overflow`` says where it may overflow in a way that Halide leaves undefined, and what range of
    its inputs excludes that; empty if nothing does."""

    facts: PipelineFacts
    params: tuple[SizeParam, ...]
    overflow: str
    form: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    """The JSON that it was read from: what a compile worker gets to know."""

    @classmethod
    def from_dict(cls, data: Any) -> Analysis:
        """``ValueError`` for what no analysis of a pipeline says."""
        names = {one.name for one in fields(PipelineFacts)}
        if not isinstance(data, dict) or set(data) != {*names, "params", "overflow"}:
            raise ValueError(f"it is not an object with {', '.join(sorted(names))} and params")
        facts: PipelineFacts = _read(PipelineFacts, {name: data[name] for name in names})
        _require_facts(facts)
        _require_outputs(facts)
        params = _read(tuple[SizeParam, ...], data["params"], "params")
        for param in params:
            _require(param.name.isidentifier(), "the name of a size is not an identifier")
            fits = param.minimum <= param.default <= param.maximum
            _require(fits, "the default of a size is not in its range")
        return cls(facts, params, _read(str, data["overflow"], "overflow"), data)


def _require_outputs(facts: PipelineFacts) -> None:
    made = {
        name: stage.extents
        for stage in facts.stages
        if stage.is_output
        for name in output_names(stage.name, stage.values)
    }
    if {buffer.name: buffer.extents for buffer in facts.outputs} != made:
        raise ValueError("its outputs are not those of its stages")
    arguments = [buffer.name for buffer in (*facts.inputs, *facts.outputs)]
    arguments += [scalar.name for scalar in facts.scalars]
    if len(set(arguments)) != len(arguments) or len(arguments) > MOST_BUFFERS:
        raise ValueError(f"not at most {MOST_BUFFERS} arguments, all of different names")


def output_names(stage: str, values: int) -> list[str]:
    """Halide's names for the buffers of an output: one for each value of a tuple."""
    return [stage] if values == 1 else [f"{stage}.{number}" for number in range(values)]


def _read(kind: Any, data: Any, where: str = "it") -> Any:
    """``data`` as what a field of type ``kind`` may hold: an object with exactly the fields of a
    dataclass, a list that is not too long, a name or text, a number or switch."""
    if isinstance(kind, type) and is_dataclass(kind):
        types = get_type_hints(kind)
        names = [one.name for one in fields(kind)]
        if not isinstance(data, dict) or set(data) != set(names):
            raise ValueError(f"{where} is not an object with {', '.join(names)}")
        return kind(**{name: _read(types[name], data[name], name) for name in names})
    if get_origin(kind) is tuple:
        most = _MOST.get(where, MOST_BUFFERS)
        if not isinstance(data, list | tuple) or len(data) > most:
            raise ValueError(f"{where} is not a list of at most {most}")
        kinds = get_args(kind)
        kinds = kinds[:1] * len(data) if kinds[-1] is ... else kinds
        return tuple(_read(one, part, where) for one, part in zip(kinds, data, strict=True))
    fits = type(data) is kind
    if kind is str and fits:
        fits = len(data) <= _MOST_TEXT and data.isprintable()
        fits = fits and (where in _TEXTS or bool(_NAME.fullmatch(data)))
    elif kind is int and fits:
        fits = 0 <= data <= _MOST.get(where, _MOST_EXTENT) or (where in _SIGNED and _is_word(data))
    if not fits:
        raise ValueError(f"{where} is {repr(data)[:60]}")
    return data


def _is_word(number: int) -> bool:
    """Whether some type of :data:`_DTYPES` holds it."""
    return -(1 << 31) <= number < 1 << 32


def _require(fits: bool, message: str) -> None:
    if not fits:
        raise ValueError(message)


def _require_facts(facts: PipelineFacts) -> None:
    buffers = (*facts.inputs, *facts.outputs)
    for buffer in buffers:
        where, dimensions = f"buffer {buffer.name}", len(buffer.extents)
        fits = 1 <= dimensions == len(buffer.mins) <= MOST_BUFFER_DIMENSIONS
        _require(fits and 0 not in buffer.extents, f"{where} has no elements")
        _require(buffer.loose <= dimensions, f"{where} lacks {buffer.loose} dimensions")
        near = all(abs(least) <= _MOST_EXTENT for least in buffer.mins)
        _require(near, f"{where} begins too far away")
    ranged = [(one.name, one.dtype, one.ends) for one in buffers]
    ranged += [(one.name, one.dtype, one.ends) for one in facts.scalars]
    for name, dtype, ends in ranged:
        _require(dtype in _DTYPES, f"{name} is of {dtype}")
        fits = len(ends) in (0, 2) and list(ends) == sorted(ends)
        _require(fits, f"the elements of {name} have no range")
    before = set[str]()
    for stage in facts.stages:
        where, dimensions = f"stage {stage.name}", len(stage.dimensions)
        _require(len(stage.extents) == dimensions, f"{where} lacks an extent for each dimension")
        _require(dimensions <= MOST_BUFFER_DIMENSIONS, f"{where} has {dimensions} dimensions")
        bits = {stage.bits, 8, stage.narrowest_bits, stage.widest_bits}
        fits = bits <= {1, 8, 16, 32, 64} and {*bits} - {stage.bits} <= {8, 16, 32}
        _require(fits, f"{where} has values of other sizes than integers")
        joined = {update.combines for update in stage.updates}
        _require(joined <= {"", "sum", "max", "min"}, f"{where} is combined in none of these ways")
        read = {name for name, _ in stage.reads}
        _require(read <= before, f"{where} reads a stage that is computed after it")
        known = {buffer.name for buffer in facts.inputs}
        _require({*stage.inputs} <= known, f"{where} reads an input that does not exist")
        before.add(stage.name)
    fits = len(before) == len(facts.stages) > 0 and facts.last.is_output
    _require(fits, "its stages do not end with an output")
