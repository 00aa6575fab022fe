"""Webhooks over REST."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from service.schemas.common import Strict

MOST_URL = 2000


class NewWebhook(Strict):
    """An address to be told of the ends of jobs."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://ci.example/hvxtune", "job": "1rt4dqb5ef"}]}
    )

    url: str = Field(min_length=1, max_length=MOST_URL, examples=["https://ci.example/hvxtune"])
    job: str | None = Field(
        None,
        max_length=16,
        description="Of this job; null: of all jobs of the token's owner.",
        examples=["1rt4dqb5ef"],
    )
    everybodys: bool = Field(
        False, description="Of everybody's jobs; for a token with the scope `admin`."
    )


class WebhookForm(BaseModel):
    """An address that is told of the ends of jobs."""

    id: str = Field(examples=["wh_2f6c5be9"])
    owner: str
    url: str
    job: str | None
    everybodys: bool
    created_at: float = Field(description="Unix seconds.")


class IssuedWebhook(WebhookForm):
    """A webhook that was just made."""

    secret: str = Field(
        description="Verifies the signatures (Standard Webhooks). Not shown again.",
        examples=["whsec_<base64>"],
    )


class WebhookList(BaseModel):
    """All of them, newest first."""

    items: list[WebhookForm]


class DeliveryForm(BaseModel):
    """A message and the attempts to deliver it."""

    id: str = Field(
        description="Its `webhook-id`, the same in every attempt.", examples=["msg_2f6c5be9"]
    )
    job: str = Field(examples=["1rt4dqb5ef"])
    created_at: float = Field(description="When the job ended, in Unix seconds.")
    attempts: int
    due_at: float | None = Field(description="When it is tried again; null: never.")
    status: int | None = Field(description="Of the last answer, if there was one.")
    error: str = Field(description="Why the last attempt failed; else empty.")
    delivered_at: float | None


class DeliveryList(BaseModel):
    """The newest messages to a webhook."""

    items: list[DeliveryForm]
