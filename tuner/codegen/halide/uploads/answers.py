"""Everything a contained process may say about an upload, read without believing any of it.

Each reader takes a piece of JSON and raises ``ValueError`` unless it is what such a process writes:
exactly these fields, names and types as Halide makes them, numbers in range. A process that gives
up says why by its exit status.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, TypeVar

from tuner.program.demands import Demands
from tuner.space.derivation.facts import (
    EVERY_DIMENSION,
    BufferFacts,
    PipelineFacts,
    ScalarFacts,
    StageFacts,
    UpdateFacts,
)

EXIT_REFUSED = 3
"""Exit status of a process in which Halide refuses the bytes; the answer then holds the reason."""
EXIT_NOT_TUNABLE = 4
"""The same where the bytes are a pipeline, but not one that can be tuned."""

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
_MOST_PARAMS = MOST_BUFFERS * (MOST_BUFFER_DIMENSIONS + 3)
"""The extents of each buffer, whether it is loose, and the ends of its elements' range."""
_MOST_TUNED_UPDATES = 16
_MOST_VALUES = 8
_MOST_EXTENT = 1 << 27
_MOST_OPERATIONS = 1 << 24
_MOST_DEMAND = 1 << 60
_BITS = (1, 8, 16, 32, 64)
_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")

_NAME = re.compile(r"[A-Za-z0-9_.$]{1,200}")
_TYPE = re.compile(r"[a-z]{3,8}[0-9]{0,3}(x[0-9]{1,5})?")

T = TypeVar("T")
Read = Callable[[Any], T]


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
        found = _DESCRIPTION(data)
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
        form = _exactly(data, {*_FACTS, "params", "overflow"})
        facts = PipelineFacts(**{name: read(form[name]) for name, read in _FACTS.items()})
        names = [stage.name for stage in facts.stages]
        if not names or not facts.last.is_output or len(set(names)) != len(names):
            raise ValueError("its stages do not end with an output")
        _require_outputs(facts)
        for at, stage in enumerate(facts.stages):
            if not {name for name, _ in stage.reads} <= set(names[:at]):
                raise ValueError(f"stage {stage.name} reads a stage that is computed after it")
            if not set(stage.inputs) <= {buffer.name for buffer in facts.inputs}:
                raise ValueError(f"stage {stage.name} reads an input that does not exist")
        params = _several(_MOST_PARAMS, _param)(form["params"])
        if not all(param.name.isidentifier() for param in params):
            raise ValueError("the name of a size is not an identifier")
        return cls(facts, params, _doc(form["overflow"]), form)


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


def _exactly(data: Any, names: set[str]) -> dict[str, Any]:
    """An object with exactly these fields."""
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError(f"not an object with {', '.join(sorted(names))}")
    return data


def _object(made: Callable[..., T], **readers: Read[Any]) -> Read[T]:
    """Reads an object with exactly the fields ``readers``, as the arguments of ``made``."""

    def read(data: Any) -> T:
        form = _exactly(data, set(readers))
        return made(**{name: one(form[name]) for name, one in readers.items()})

    return read


def _several(most: int, read: Read[T]) -> Read[tuple[T, ...]]:
    """Reads a list of at most ``most``."""

    def read_all(data: Any) -> tuple[T, ...]:
        if not isinstance(data, list | tuple):
            raise ValueError("not a list")
        if len(data) > most:
            raise ValueError(f"{len(data)} elements, at most {most} are accepted")
        return tuple(read(one) for one in data)

    return read_all


def _one_of(*accepted: T) -> Read[T]:
    def read(data: Any) -> T:
        if isinstance(data, bool) or data not in accepted:
            raise ValueError(f"{repr(data)[:60]} is none of {', '.join(map(repr, accepted))}")
        return accepted[accepted.index(data)]

    return read


def _matching(pattern: re.Pattern[str], what: str) -> Read[str]:
    def read(data: Any) -> str:
        if not isinstance(data, str) or not pattern.fullmatch(data):
            raise ValueError(f"a {what} is {repr(data)[:60]}")
        return data

    return read


def _count(most: int) -> Read[int]:
    """Reads an integer from 0 to ``most``."""

    def read(data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= most:
            raise ValueError(f"a count is {repr(data)[:60]}")
        return data

    return read


def _signed(least: int, most: int) -> Read[int]:
    """Reads an integer from ``least``, which is negative, to ``most``."""
    below, above = _count(-least), _count(most)
    return lambda data: -below(-data) if isinstance(data, int) and data < 0 else above(data)


def _switch(data: Any) -> bool:
    if not isinstance(data, bool):
        raise ValueError("neither true nor false")
    return data


def _counted(data: Any) -> tuple[str, int]:
    """A name with a number."""
    if not isinstance(data, list | tuple) or len(data) != 2:
        raise ValueError("not a name with a number")
    return _name(data[0]), _extent(data[1])


def _optional(read: Read[str]) -> Read[str]:
    """Reads what ``read`` does, or nothing."""
    return lambda data: "" if data == "" else read(data)


def _dimension(data: Any) -> str:
    return data if data == EVERY_DIMENSION else _name(data)


def _doc(data: Any) -> str:
    if not isinstance(data, str) or len(data) > 500 or not data.isprintable():
        raise ValueError("the text on a size is not printable, or too long")
    return data


def _buffer(data: Any) -> BufferFacts:
    found = _BUFFER(data)
    if not 1 <= len(found.extents) == len(found.mins) or 0 in found.extents:
        raise ValueError(f"buffer {found.name} has no elements")
    if found.loose > len(found.extents):
        raise ValueError(f"buffer {found.name} lacks {found.loose} dimensions")
    if len(found.ends) == 1 or list(found.ends) != sorted(found.ends):
        raise ValueError(f"the elements of {found.name} have no range")
    return found


def _stage(data: Any) -> StageFacts:
    found = _STAGE(data)
    if len(found.extents) != len(found.dimensions):
        raise ValueError(f"stage {found.name} lacks an extent for each dimension")
    return found


def _param(data: Any) -> SizeParam:
    found = _PARAM(data)
    if not found.minimum <= found.default <= found.maximum:
        raise ValueError("the default of a size is not in its range")
    return found


_name = _matching(_NAME, "name")
_type = _matching(_TYPE, "type")
_extent = _count(_MOST_EXTENT)
_word = _signed(-(1 << 31), (1 << 32) - 1)
"""A number that some type of :data:`_DTYPES` holds."""
_names = _several(MOST_BUFFER_DIMENSIONS, _name)
_extents = _several(MOST_BUFFER_DIMENSIONS, _extent)

_DESCRIPTION = _object(
    PipelineDescription,
    stages=_several(
        MOST_STAGES,
        _object(
            PipelineStage,
            name=_name,
            dimensions=_several(MOST_DIMENSIONS, _name),
            types=_several(MOST_OUTPUTS, _type),
            updates=_count(MOST_UPDATES),
        ),
    ),
    inputs=_several(
        MOST_INPUTS,
        _object(
            PipelineInput,
            name=_name,
            type=_type,
            dimensions=_count(MOST_DIMENSIONS),
            is_buffer=_switch,
        ),
    ),
    outputs=_several(MOST_OUTPUTS, _name),
)
_BUFFER = _object(
    BufferFacts,
    name=_name,
    dtype=_one_of(*_DTYPES),
    mins=_several(MOST_BUFFER_DIMENSIONS, _signed(-_MOST_EXTENT, _MOST_EXTENT)),
    extents=_extents,
    free=_extents,
    loose=_count(MOST_BUFFER_DIMENSIONS),
    ends=_several(2, _word),
)
_UPDATE = _object(
    UpdateFacts,
    pure=_names,
    rvars=_several(MOST_BUFFER_DIMENSIONS, _counted),
    scans=_switch,
    combines=_one_of("", "sum", "max", "min"),
    dot=_switch,
    backwards=_switch,
    across=_optional(_name),
    quads=_switch,
)
_STAGE = _object(
    StageFacts,
    name=_name,
    dimensions=_names,
    extents=_extents,
    bits=_one_of(*_BITS),
    narrowest_bits=_one_of(*_BITS[1:-1]),
    widest_bits=_one_of(*_BITS[1:-1]),
    reads=_several(MOST_TUNED_STAGES, _counted),
    clamped=_switch,
    operations=_count(_MOST_OPERATIONS),
    updates=_several(_MOST_TUNED_UPDATES, _UPDATE),
    values=_count(_MOST_VALUES),
    divides=_several(MOST_BUFFER_DIMENSIONS, _dimension),
    strided=_several(MOST_BUFFER_DIMENSIONS, _counted),
    picks=_switch,
    skipped=_switch,
    gathers=_switch,
    is_output=_switch,
    is_edge=_switch,
    apart=_switch,
    looks_up=_switch,
    inputs=_several(MOST_BUFFERS, _name),
    chooses=_several(MOST_BUFFER_DIMENSIONS, _name),
    repeats=_switch,
)
_FACTS: dict[str, Read[Any]] = {
    "inputs": _several(MOST_BUFFERS - 1, _buffer),
    "outputs": _several(MOST_BUFFERS, _buffer),
    "stages": _several(MOST_TUNED_STAGES, _stage),
    "folds": _switch,
    "scalars": _several(
        MOST_BUFFERS,
        _object(
            ScalarFacts,
            name=_name,
            dtype=_one_of(*_DTYPES),
            value=_word,
            decides=_switch,
            ends=_several(2, _word),
        ),
    ),
    "demands": _object(Demands, **{one.name: _count(_MOST_DEMAND) for one in fields(Demands)}),
}
_PARAM = _object(
    SizeParam,
    name=_name,
    default=_word,
    doc=_doc,
    minimum=_word,
    maximum=_word,
    is_extent=_switch,
    is_optional=_switch,
)
