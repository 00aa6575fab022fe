"""What a contained process says of a pipeline for the derivation, read believing nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tuner.codegen.halide.uploads.fields import a_count, a_name, fields, several
from tuner.space.derivation.facts import (
    EVERY_DIMENSION,
    BufferFacts,
    PipelineFacts,
    ScalarFacts,
    StageFacts,
    UpdateFacts,
)

MOST_STAGES = 64
"""More make spaces that no search gets through."""
MOST_BUFFERS = 16
MOST_DIMENSIONS = 6
"""Both are what one call of the harness passes (``image.h``)."""
_MOST_PARAMS = MOST_BUFFERS * (MOST_DIMENSIONS + 1)
"""The extents of each buffer, and whether it is loose."""
_MOST_UPDATES = 16
_MOST_VALUES = 8
_MOST_EXTENT = 1 << 27
_MOST_OPERATIONS = 1 << 24
_BITS = (1, 8, 16, 32)
_DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_COMBINATIONS = ("", "sum", "max", "min")

V = TypeVar("V")


@dataclass(frozen=True)
class SizeParam:
    """What whoever tunes the pipeline chooses: an extent, of which a ``default`` of 0 means as
    needed, the value of a scalar, or whether a buffer is loose. ``minimum`` and ``maximum`` are
    accepted; one that ``is_optional`` is no part of a workload at its default."""

    name: str
    default: int
    doc: str
    minimum: int
    maximum: int
    is_extent: bool
    is_optional: bool


@dataclass(frozen=True)
class Analysis:
    """The facts of a pipeline at one size, and the names of the sizes there are to choose."""

    facts: PipelineFacts
    params: tuple[SizeParam, ...]
    form: Mapping[str, Any] = field(repr=False, hash=False, compare=False)
    """The JSON that it was read from: what a compile worker gets to know."""

    @classmethod
    def from_dict(cls, data: Any) -> Analysis:
        """``ValueError`` for what no analysis of a pipeline says."""
        form = fields(data, {"inputs", "outputs", "stages", "scalars", "params"})
        facts = PipelineFacts(
            inputs=several(form["inputs"], MOST_BUFFERS - 1, _buffer),
            outputs=several(form["outputs"], MOST_BUFFERS, _buffer),
            stages=several(form["stages"], MOST_STAGES, _stage),
            scalars=several(form["scalars"], MOST_BUFFERS, _scalar),
        )
        names = [stage.name for stage in facts.stages]
        if not names or not facts.last.is_output or len(set(names)) != len(names):
            raise ValueError("its stages do not end with an output")
        _require_outputs(facts)
        for at, stage in enumerate(facts.stages):
            if not {name for name, _ in stage.reads} <= set(names[:at]):
                raise ValueError(f"stage {stage.name} reads what is computed after it")
            if not set(stage.inputs) <= {buffer.name for buffer in facts.inputs}:
                raise ValueError(f"stage {stage.name} reads an input that there is not")
        params = several(form["params"], _MOST_PARAMS, _param)
        if not all(param.name.isidentifier() for param in params):
            raise ValueError("the name of a size is no identifier")
        return cls(facts, params, form)


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
    """What Halide calls the buffers of an output: one for each value of a tuple."""
    return [stage] if values == 1 else [f"{stage}.{number}" for number in range(values)]


def _buffer(data: Any) -> BufferFacts:
    form = fields(data, set(BufferFacts.__dataclass_fields__))
    found = BufferFacts(
        name=a_name(form["name"]),
        dtype=_one_of(form["dtype"], _DTYPES),
        mins=several(form["mins"], MOST_DIMENSIONS, _coordinate),
        extents=several(form["extents"], MOST_DIMENSIONS, _extent),
        free=several(form["free"], MOST_DIMENSIONS, _extent),
        loose=a_count(form["loose"], MOST_DIMENSIONS),
    )
    if not 1 <= len(found.extents) == len(found.mins) or 0 in found.extents:
        raise ValueError(f"buffer {found.name} has no elements")
    if found.loose > len(found.extents):
        raise ValueError(f"buffer {found.name} has not {found.loose} dimensions")
    return found


def _stage(data: Any) -> StageFacts:
    names = set(StageFacts.__dataclass_fields__)
    form = fields(data, names)
    found = StageFacts(
        name=a_name(form["name"]),
        dimensions=several(form["dimensions"], MOST_DIMENSIONS, a_name),
        extents=several(form["extents"], MOST_DIMENSIONS, _extent),
        bits=_one_of(form["bits"], _BITS),
        narrowest_bits=_one_of(form["narrowest_bits"], _BITS[1:]),
        widest_bits=_one_of(form["widest_bits"], _BITS[1:]),
        reads=several(form["reads"], MOST_STAGES, _counted),
        clamped=_switch(form["clamped"]),
        operations=a_count(form["operations"], _MOST_OPERATIONS),
        updates=several(form["updates"], _MOST_UPDATES, _update),
        values=a_count(form["values"], _MOST_VALUES),
        divides=several(form["divides"], MOST_DIMENSIONS, _dimension),
        strided=several(form["strided"], MOST_DIMENSIONS, _counted),
        picks=_switch(form["picks"]),
        skipped=_switch(form["skipped"]),
        is_output=_switch(form["is_output"]),
        is_edge=_switch(form["is_edge"]),
        inputs=several(form["inputs"], MOST_BUFFERS, a_name),
    )
    if len(found.extents) != len(found.dimensions):
        raise ValueError(f"stage {found.name} has not an extent for each dimension")
    return found


def _update(data: Any) -> UpdateFacts:
    form = fields(data, set(UpdateFacts.__dataclass_fields__))
    return UpdateFacts(
        pure=several(form["pure"], MOST_DIMENSIONS, a_name),
        rvars=several(form["rvars"], MOST_DIMENSIONS, _counted),
        scans=_switch(form["scans"]),
        combines=_one_of(form["combines"], _COMBINATIONS),
        dot=_switch(form["dot"]),
        backwards=_switch(form["backwards"]),
    )


def _param(data: Any) -> SizeParam:
    form = fields(data, set(SizeParam.__dataclass_fields__))
    doc = form["doc"]
    if not isinstance(doc, str) or len(doc) > 500 or not doc.isprintable():
        raise ValueError("the text on a size is no text")
    default, minimum, maximum = (_word(form[name]) for name in ("default", "minimum", "maximum"))
    if not minimum <= default <= maximum:
        raise ValueError("the default of a size is not in its range")
    is_extent, is_optional = _switch(form["is_extent"]), _switch(form["is_optional"])
    return SizeParam(a_name(form["name"]), default, doc, minimum, maximum, is_extent, is_optional)


def _scalar(data: Any) -> ScalarFacts:
    form = fields(data, set(ScalarFacts.__dataclass_fields__))
    dtype = _one_of(form["dtype"], _DTYPES)
    return ScalarFacts(a_name(form["name"]), dtype, _word(form["value"]))


def _word(data: Any) -> int:
    """A number that some type of :data:`_DTYPES` holds."""
    if isinstance(data, int) and data < 0:
        return -a_count(-data, 1 << 31)
    return a_count(data, (1 << 32) - 1)


def _counted(data: Any) -> tuple[str, int]:
    if not isinstance(data, list | tuple) or len(data) != 2:
        raise ValueError("not a name with a number")
    return a_name(data[0]), _extent(data[1])


def _dimension(data: Any) -> str:
    return data if data == EVERY_DIMENSION else a_name(data)


def _extent(data: Any) -> int:
    return a_count(data, _MOST_EXTENT)


def _coordinate(data: Any) -> int:
    return -a_count(-data, _MOST_EXTENT) if isinstance(data, int) and data < 0 else _extent(data)


def _switch(data: Any) -> bool:
    if not isinstance(data, bool):
        raise ValueError("neither true nor false")
    return data


def _one_of(data: Any, accepted: tuple[V, ...]) -> V:
    if isinstance(data, bool) or data not in accepted:
        raise ValueError(f"{repr(data)[:60]} is none of {', '.join(map(repr, accepted))}")
    return accepted[accepted.index(data)]
