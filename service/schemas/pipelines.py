"""Uploaded pipelines as JSON."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from service.schemas.catalogue import ParamForm
from service.schemas.common import Strict, Visibility


class UploadQuery(Strict):
    """How to call the pipeline."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_]{0,62}$",
        description="A name of lower-case letters, digits and underscores.",
        examples=["blur3x3"],
    )
    visibility: Visibility = Field(
        "shared", description="`private`: its owner alone sees it, and what is tuned of it."
    )


class StageForm(BaseModel):
    """A Func of the pipeline."""

    name: str = Field(examples=["blur_x"])
    dimensions: list[str] = Field(examples=[["x", "y"]], description="Loops, innermost first.")
    types: list[str] = Field(examples=[["uint16"]], description="One for each value of a tuple.")
    updates: int = Field(examples=[0], description="Update definitions.")


class InputForm(BaseModel):
    """A buffer or a scalar that callers pass: in the order of the call, before the outputs."""

    name: str = Field(examples=["input"])
    type: str = Field(examples=["uint8"])
    dimensions: int = Field(examples=[2], description="0 for a scalar.")
    is_buffer: bool


class PipelineForm(BaseModel):
    """An uploaded pipeline and what was found in it."""

    digest: str = Field(description="SHA-256 of the bytes: its id.")
    name: str = Field(examples=["blur3x3"])
    owner: str = Field(description="The tenant that owns it and its name.", examples=["ann"])
    visibility: Visibility
    address: str = Field(
        examples=["pipeline:ann/blur3x3"],
        description="Names the owner's newest of this name for everyone; jobs keep `kernel`.",
    )
    user: str = Field(description="The user who uploaded it.")
    upload_bytes: int = Field(examples=[4880])
    created_at: float = Field(description="Unix time of its last upload.")
    stages: list[StageForm]
    inputs: list[InputForm]
    outputs: list[str] = Field(examples=[["blur_y"]], description="In the order of the call.")
    kernel: str = Field(
        examples=["pipeline:0123456789ab"],
        description="Its name in jobs, by its digest; `pipeline:NAME` is the caller's own newest"
        " of that name.",
    )
    params: list[ParamForm] | None = Field(
        description="Sizes and scalars that jobs choose; null in lists, or if it is not tunable."
    )
    space: dict[str, Any] | None = Field(
        description="The space derived for the default sizes; null where `params` is."
    )
    overflow: str | None = Field(
        description="Where it may overflow, which Halide leaves undefined, at the default sizes,"
        " and parameters that exclude it; null in lists, or if nothing can."
    )
    not_tunable: str | None = Field(description="Why it cannot be tuned; null if it can.")


class PipelineList(BaseModel):
    """A page of uploads, newest first."""

    items: list[PipelineForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")
