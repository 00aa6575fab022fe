"""Tokens and the audit over REST."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from service.auth.caller import Reads, Scope
from service.auth.tokens import DEFAULT_EXPIRES, MOST_QUOTA
from service.schemas.common import Strict

# Strict: true is not a number of jobs.
Quota = Annotated[int, Field(strict=True, ge=0, le=MOST_QUOTA)]


class QuotasForm(Strict):
    """The limits of a token; `null` means no limit."""

    running_jobs: Quota | None = Field(None, description="Jobs of its user that run at once.")
    trials_per_day: Quota | None = Field(
        None,
        description="Trials that jobs of its user may take, of those submitted in the last 24"
        " hours.",
    )
    upload_bytes_per_day: Quota | None = Field(None, description="Uploads of its user in 24 hours.")
    requests_per_minute: Annotated[Quota, Field(ge=1)] | None = Field(
        None, description="Requests with this token."
    )


class NewToken(Strict):
    """A token to be made."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "name": "ci",
                    "scopes": ["read", "submit"],
                    "expires": "90d",
                    "quotas": {"trials_per_day": 5000},
                }
            ]
        }
    )

    name: str = Field(
        description="The user that jobs are submitted by; several tokens may share it.",
        examples=["ci"],
    )
    scopes: list[Scope] = Field(
        min_length=1,
        description="Each is granted by itself; `admin` includes all.",
        examples=[["read", "submit"]],
    )
    expires: str = Field(
        DEFAULT_EXPIRES,
        description="A span such as `12h`, `90d`, `52w`; a date such as `2027-01-31` (UTC);"
        " `never`.",
        examples=["90d"],
    )
    owner: str | None = Field(
        None,
        description="Owner of its jobs, uploads and schedules, such as a team; null: the name.",
        examples=["vision-team"],
    )
    read: Reads = Field(
        Reads.OWN,
        description="How far the scope `read` reaches: `own` is what is shared and what is its"
        " owner's; `all` is also what others keep private.",
    )
    quotas: QuotasForm = Field(default_factory=lambda: QuotasForm.model_validate({}))


class TokenForm(BaseModel):
    """A token without its secret."""

    id: str = Field(description="The part after `hvx_` in the token.", examples=["k3zq7a2m"])
    name: str = Field(examples=["ci"])
    owner: str = Field(description="Owner of its jobs, uploads and schedules.", examples=["ci"])
    state: Literal["valid", "expired", "revoked"]
    scopes: list[str] = Field(examples=[["read", "submit"]])
    read: Reads = Field(description="How far `read` reaches.", examples=["own"])
    quotas: QuotasForm
    created_at: float = Field(description="Unix seconds.", examples=[1767225600.0])
    expires_at: float | None = Field(description="null: never.", examples=[1775001600.0])
    revoked_at: float | None
    last_used_at: float | None = Field(description="To the minute. null: not yet.")


class IssuedToken(TokenForm):
    """A token that was just made."""

    token: str = Field(
        description="To be sent as `Authorization: Bearer`. Not shown again.",
        examples=["hvx_k3zq7a2m_<secret>"],
    )


class TokenList(BaseModel):
    """All tokens."""

    items: list[TokenForm]


class AuditForm(BaseModel):
    """A change, or a refused request."""

    number: int = Field(description="Rises.", examples=[17])
    at: float = Field(description="Unix seconds.", examples=[1767225600.0])
    token: str | None = Field(
        description="The id of the token; null for commands on the service's machine, and where"
        " no valid token was shown.",
        examples=["k3zq7a2m"],
    )
    action: str = Field(examples=["token.revoke"])
    subject: str = Field(description="The id of the thing changed.", examples=["k3zq7a2m"])
    detail: dict[str, Any] = Field(examples=[{"name": "ci"}])
    client: str = Field(description="Where the request came from.", examples=["192.0.2.7"])
    request_id: str = Field(
        description="Of the request (`X-Request-ID`); empty for commands.",
        examples=["5d1c0f2ab9e34c77"],
    )


class AuditList(BaseModel):
    """A page of the audit, newest first."""

    items: list[AuditForm]
    next_cursor: str | None
