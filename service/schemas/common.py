"""Shapes that many routes share: strict bodies and queries, and problem details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from service.http_errors import UNKNOWN_FIELD
from tuner.records.request import Visibility as Visibility


class Strict(BaseModel):
    """A body or a query that refuses unknown fields, rather than ignore a typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _require_known(cls, given: Any) -> Any:
        """Says what the fields are, which Pydantic does not."""
        for name in given if isinstance(given, Mapping) else ():
            if name not in cls.model_fields:
                known = sorted(cls.model_fields)
                told = {"name": str(name).encode(errors="replace").decode(), "known": known}
                raise PydanticCustomError(UNKNOWN_FIELD, "Extra inputs are not permitted", told)
        return given


class PageQuery(Strict):
    """Which page of a list."""

    cursor: str | None = Field(
        None, description="`next_cursor` of the page before; without it, the first page."
    )
    limit: int = Field(50, ge=1, le=1000, description="Items a page, at most.")


class FieldProblem(BaseModel):
    """One field of a request that is wrong."""

    field: str = Field(examples=["query.limit"])
    message: str = Field(examples=["Input should be less than or equal to 1000"])


class ProblemDetails(BaseModel):
    """Every error: RFC 9457 problem details with who must act and what to do."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:hvxtune:error:user",
                    "title": "The request is wrong",
                    "status": 422,
                    "detail": "unknown kernel 'gemm'",
                    "instance": "/v1/kernels/gemm",
                    "kind": "user",
                    "accepted": "gemm_u8, depthwise_conv2d_u8",
                    "next_step": "did you mean gemm_u8?",
                    "request_id": "5d1c0f2ab9e34c77",
                }
            ]
        },
    )

    type: str = Field(description="A URN that names the kind.")
    title: str = Field(description="The meaning of the status.")
    status: int = Field(description="The HTTP status, repeated.")
    detail: str = Field(description="The problem, with the value.")
    instance: str = Field(description="The path of the request.")
    kind: str = Field(
        description="Party that must act: user, toolchain, store, device, internal; busy: nobody."
    )
    accepted: str = Field(description="Values that are accepted; may be empty.")
    next_step: str = Field(description="A command to run or a change to make; may be empty.")
    request_id: str = Field(description="As `X-Request-ID`; the logs of the service have it too.")
    errors: list[FieldProblem] | None = Field(
        None, description="For 422: every field that is wrong."
    )
