"""What is known of an uploaded pipeline: its stages, inputs and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

MOST_STAGES = 1024
MOST_INPUTS = 256
MOST_OUTPUTS = 256
MOST_DIMENSIONS = 32
MOST_UPDATES = 4096
_NAME = re.compile(r"[A-Za-z0-9_.$]{1,200}")
_TYPE = re.compile(r"[a-z]{3,8}[0-9]{0,3}(x[0-9]{1,5})?")

T = TypeVar("T")


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
    """Stages in the order of computation, without the wrappers that Halide puts around inputs."""

    stages: tuple[PipelineStage, ...]
    inputs: tuple[PipelineInput, ...]
    outputs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> PipelineDescription:
        """The inverse of :meth:`as_dict`, which believes nothing: ``ValueError`` for another form,
        for names and types that Halide does not make, and for more than any pipeline has."""
        fields = _fields(data, {"stages", "inputs", "outputs"})
        found = cls(
            stages=_several(fields["stages"], MOST_STAGES, _stage),
            inputs=_several(fields["inputs"], MOST_INPUTS, _input),
            outputs=_several(fields["outputs"], MOST_OUTPUTS, _name),
        )
        if not found.outputs:
            raise ValueError("it has no output")
        missing = set(found.outputs) - {stage.name for stage in found.stages}
        if missing:
            raise ValueError(f"no stage computes its output {min(missing)}")
        return found


def _stage(data: Any) -> PipelineStage:
    fields = _fields(data, {"name", "dimensions", "types", "updates"})
    return PipelineStage(
        name=_name(fields["name"]),
        dimensions=_several(fields["dimensions"], MOST_DIMENSIONS, _name),
        types=_several(fields["types"], MOST_OUTPUTS, _type),
        updates=_count(fields["updates"], MOST_UPDATES),
    )


def _input(data: Any) -> PipelineInput:
    fields = _fields(data, {"name", "type", "dimensions", "is_buffer"})
    if not isinstance(fields["is_buffer"], bool):
        raise ValueError("an input is neither buffer nor scalar")
    return PipelineInput(
        name=_name(fields["name"]),
        type=_type(fields["type"]),
        dimensions=_count(fields["dimensions"], MOST_DIMENSIONS),
        is_buffer=fields["is_buffer"],
    )


def _fields(data: Any, names: set[str]) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError(f"not an object with {', '.join(sorted(names))}")
    return data


def _several(data: Any, most: int, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(data, list | tuple):
        raise ValueError("not a list")
    if len(data) > most:
        raise ValueError(f"{len(data)} of what may be at most {most}")
    return tuple(read(one) for one in data)


def _name(data: Any) -> str:
    if not isinstance(data, str) or not _NAME.fullmatch(data):
        raise ValueError(f"a name is {repr(data)[:60]}")
    return data


def _type(data: Any) -> str:
    if not isinstance(data, str) or not _TYPE.fullmatch(data):
        raise ValueError(f"a type is {repr(data)[:60]}")
    return data


def _count(data: Any, most: int) -> int:
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= most:
        raise ValueError(f"a count is {repr(data)[:60]}")
    return data
