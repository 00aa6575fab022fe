"""What is known of an uploaded pipeline: its stages, inputs and outputs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tuner.codegen.halide.uploads.fields import a_count, a_name, a_type, fields, several

MOST_STAGES = 1024
MOST_INPUTS = 256
MOST_OUTPUTS = 256
MOST_DIMENSIONS = 32
MOST_UPDATES = 4096


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
        form = fields(data, {"stages", "inputs", "outputs"})
        found = cls(
            stages=several(form["stages"], MOST_STAGES, _stage),
            inputs=several(form["inputs"], MOST_INPUTS, _input),
            outputs=several(form["outputs"], MOST_OUTPUTS, a_name),
        )
        if not found.outputs:
            raise ValueError("it has no output")
        missing = set(found.outputs) - {stage.name for stage in found.stages}
        if missing:
            raise ValueError(f"no stage computes its output {min(missing)}")
        return found


def _stage(data: Any) -> PipelineStage:
    form = fields(data, {"name", "dimensions", "types", "updates"})
    return PipelineStage(
        name=a_name(form["name"]),
        dimensions=several(form["dimensions"], MOST_DIMENSIONS, a_name),
        types=several(form["types"], MOST_OUTPUTS, a_type),
        updates=a_count(form["updates"], MOST_UPDATES),
    )


def _input(data: Any) -> PipelineInput:
    form = fields(data, {"name", "type", "dimensions", "is_buffer"})
    if not isinstance(form["is_buffer"], bool):
        raise ValueError("an input is neither buffer nor scalar")
    return PipelineInput(
        name=a_name(form["name"]),
        type=a_type(form["type"]),
        dimensions=a_count(form["dimensions"], MOST_DIMENSIONS),
        is_buffer=form["is_buffer"],
    )
