"""Packages as JSON."""

from __future__ import annotations

from pydantic import BaseModel, Field

from service.schemas.common import Strict


class PackageBody(Strict):
    """The files of a package."""

    files: dict[str, str] = Field(
        description="Contents in base64 by their paths, `kernel.toml` and all that it names.",
        examples=[{"kernel.toml": "bmFtZSA9ICJibHVyIgo="}],
        max_length=4096,
    )


class PackageForm(BaseModel):
    """A registered package."""

    package: str = Field(examples=["blur"], description="Its name.")
    version: int = Field(examples=[1])
    summary: str = Field(examples=["u8 image blurred down its columns"])
    digest: str = Field(description="SHA-256 of its files: its id.")
    kernel: str = Field(
        examples=["package:0123456789ab"],
        description="Its name in jobs, by its digest; `package:NAME` is the one registered last.",
    )
    build: str = Field(examples=["c"], description="The way to an object.")
    contracts: list[str] = Field(examples=[["static"]])


class PackageList(BaseModel):
    """A page of packages, the one registered last first."""

    items: list[PackageForm]
    next_cursor: str | None = Field(description="For the next page; null: that was all.")
