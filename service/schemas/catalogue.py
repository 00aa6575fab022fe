"""Kernels, spaces and targets as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from service.schemas.common import Strict
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.request import DEFAULT_CONTRACT


class ParamForm(BaseModel):
    """An integer parameter of a kernel."""

    name: str = Field(examples=["m"])
    default: int = Field(examples=[256])
    minimum: int = Field(examples=[1], description="The smallest value accepted.")
    maximum: int = Field(examples=[65536], description="The largest value accepted.")
    multiple: int = Field(examples=[1], description="Every value must be divisible by it.")
    doc: str = Field(examples=["rows of A and C"])


class KernelForm(BaseModel):
    """A kernel that can be tuned."""

    name: str = Field(examples=["gemm_u8"])
    version: int = Field(
        examples=[1], description="Rises when results or buffers of the algorithm change."
    )
    summary: str = Field(examples=["u8 matrix multiply with i32 sums, requantized to u8"])
    params: list[ParamForm]


class KernelList(BaseModel):
    """All kernels."""

    items: list[KernelForm]


class TargetForm(BaseModel):
    """One Hexagon configuration to generate code for."""

    name: str = Field(examples=["hexagon-v66-sm8150"])
    arch: str = Field(examples=["v66"])
    soc: str | None = Field(examples=["sm8150"], description="null for an arch in general.")
    vector_bytes: int = Field(examples=[128], description="Width of an HVX register.")
    vector_alignment_bytes: int = Field(
        examples=[128], description="The alignment that aligned vector loads and stores need."
    )
    hvx_contexts: int = Field(examples=[4])
    l1d_bytes: int = Field(examples=[32768])
    l2_bytes: int = Field(examples=[1048576])
    vtcm_bytes: int = Field(examples=[262144])
    u8_macs_per_cycle: int = Field(
        examples=[256], description="Peak multiply-accumulates of one HVX context."
    )


class TargetList(BaseModel):
    """All targets."""

    items: list[TargetForm]


class KnobForm(BaseModel):
    """One thing a search may choose."""

    name: str = Field(examples=["tile_rows"])
    choices: list[Any] = Field(examples=[[1, 2, 4]])
    doc: str = Field(examples=["rows of a tile"])
    when: str | None = Field(description="Active only where this holds; null: always.")


class ConstraintForm(BaseModel):
    """A condition that every valid config meets."""

    text: str = Field(examples=["tile_rows * unroll_x <= 24"])
    reason: str = Field(examples=["more would not fit the 32 vector registers"])


class SpaceForm(BaseModel):
    """The knobs and constraints a search over a workload would use."""

    model_config = ConfigDict(protected_namespaces=())

    kernel: str = Field(examples=["add_u8"])
    constants: dict[str, Any] = Field(description="Values constraints may refer to besides knobs.")
    knobs: list[KnobForm]
    constraints: list[ConstraintForm]
    digest: str = Field(description="Names the space; changes with anything in it.")
    default: dict[str, Any] = Field(description="The config a first-time user would write.")
    textbook: dict[str, Any] = Field(description="A good HVX schedule from the literature.")


class SpaceQuery(Strict):
    """The problem of a space."""

    param: list[str] = Field(
        default_factory=list,
        description="Parameters as `m=256,n=256`, or one each; the rest by default.",
        examples=[["m=256,n=256,k=256"]],
    )
    target: Annotated[
        str, Field(description="The hardware to generate code for.", examples=["hexagon-v66"])
    ] = DEFAULT_TARGET
    contract: Annotated[
        str,
        Field(
            description="Guarantees callers give: none, host, stride, extent or static.",
            examples=["static"],
        ),
    ] = DEFAULT_CONTRACT
