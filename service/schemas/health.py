"""How the service is, as JSON."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(BaseModel):
    """The service can do its work."""

    status: Literal["ready"] = "ready"
    database: str | None = Field(
        None,
        examples=["/var/lib/hvxtune/hvxtune.sqlite"],
        description="The one that answered, without its password.",
    )
    conductors: int | None = Field(
        None, examples=[1], description="Processes of this service that run jobs; others may, too."
    )
