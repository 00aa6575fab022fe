"""Tables of the service: tokens, sessions, the audit, uploads, conductors."""

from __future__ import annotations

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from db.base import OWNER_LENGTH, Base, Digest, Document, FreeText, RowId

CONDUCTOR_ID_LENGTH = 32
TOKEN_ID_LENGTH = 16
REQUEST_ID_LENGTH = 100


class TokenRow(Base):
    """A bearer token. Only the SHA-256 of its secret is kept: 256 random bits need no salt.

    ``name`` is the user that jobs are submitted by; several tokens may share it. ``owner``, a
    person or a team, owns the jobs and uploads. :mod:`service.auth` interprets ``scopes``,
    ``quotas`` and ``reads``."""

    __tablename__ = "tokens"

    id: Mapped[str] = mapped_column(String(TOKEN_ID_LENGTH), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), index=True)
    secret_digest: Mapped[Digest]
    scopes: Mapped[list[str]]
    quotas: Mapped[Document]
    created_at: Mapped[float]
    expires_at: Mapped[float | None]
    revoked_at: Mapped[float | None]
    last_used_at: Mapped[float | None]
    owner: Mapped[str] = mapped_column(String(OWNER_LENGTH), server_default="")
    reads: Mapped[str] = mapped_column(String(10), server_default="own")


class AuditRow(Base):
    """A change, or an attempt at one. ``token_id`` is absent without a valid token."""

    __tablename__ = "audit"

    id: Mapped[RowId]
    at: Mapped[float] = mapped_column(index=True)
    token_id: Mapped[str | None] = mapped_column(String(TOKEN_ID_LENGTH))
    action: Mapped[str] = mapped_column(String(100))
    subject: Mapped[str] = mapped_column(FreeText())
    detail: Mapped[Document]
    client: Mapped[str] = mapped_column(String(100))
    request_id: Mapped[str] = mapped_column(String(REQUEST_ID_LENGTH), server_default="")


class SessionRow(Base):
    """A browser that has logged in, by the SHA-256 of its cookie's secret. No row, no session."""

    __tablename__ = "sessions"

    digest: Mapped[Digest] = mapped_column(primary_key=True)
    token_id: Mapped[str] = mapped_column(String(TOKEN_ID_LENGTH))
    created_at: Mapped[float]
    expires_at: Mapped[float] = mapped_column(index=True)

    __table_args__ = (Index(None, "token_id", "created_at"),)


class IdempotencyRow(Base):
    """The answer to a request with an ``Idempotency-Key``, for when it is sent again."""

    __tablename__ = "idempotency"

    token_id: Mapped[str] = mapped_column(String(TOKEN_ID_LENGTH), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request_digest: Mapped[Digest]
    status: Mapped[int]
    answer: Mapped[Document]
    created_at: Mapped[float] = mapped_column(index=True)


class PipelineRow(Base):
    """A name that a tenant gave an uploaded Halide pipeline. ``description`` is what the contained
    process found in it.

    The bytes lie on disk, named by the digest; several tenants may have uploaded the same, and
    one tenant several versions under one name. ``created_at`` is when it was last uploaded so.
    """

    __tablename__ = "pipelines"

    id: Mapped[RowId]
    digest: Mapped[Digest] = mapped_column(index=True)
    kernel: Mapped[str] = mapped_column(String(100), index=True)
    name: Mapped[str] = mapped_column(String(100))
    tenant: Mapped[str] = mapped_column(String(OWNER_LENGTH))
    audience: Mapped[str] = mapped_column(String(OWNER_LENGTH))
    submitted_by: Mapped[str] = mapped_column(String(100))
    upload_bytes: Mapped[int]
    description: Mapped[Document]
    created_at: Mapped[float]

    __table_args__ = (
        UniqueConstraint("tenant", "name", "digest"),
        Index(None, "tenant", "name", "created_at"),
        Index(None, "submitted_by", "created_at"),
    )


class HeartbeatRow(Base):
    """When a service on ``machine`` last proved that it can write."""

    __tablename__ = "heartbeats"

    machine: Mapped[str] = mapped_column(String(100), primary_key=True)
    at: Mapped[float]


class ConductorRow(Base):
    """A process that runs jobs, or is unfit to (:class:`db.jobs.conductors.Conductor`).

    ``seen_at`` and ``expires_at`` are by the clock of the database, which a conductor's may differ
    from. One that does not renew its row by then is gone.
    """

    __tablename__ = "conductors"

    id: Mapped[str] = mapped_column(String(CONDUCTOR_ID_LENGTH), primary_key=True)
    host: Mapped[str] = mapped_column(String(300))
    pid: Mapped[int]
    started_at: Mapped[float]
    seen_at: Mapped[float]
    expires_at: Mapped[float] = mapped_column(index=True)
    slots: Mapped[int]
    version: Mapped[str] = mapped_column(String(50))
    artifacts: Mapped[str] = mapped_column(FreeText())
    report: Mapped[Document]
