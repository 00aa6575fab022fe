"""Tables of the service: who may do what, what they did, what they uploaded."""

from __future__ import annotations

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from db.base import Base, Digest, Document, FreeText, RowId

TOKEN_ID_LENGTH = 16


class TokenRow(Base):
    """A bearer token. Only the SHA-256 of its secret is kept: 256 random bits need no salt.

    ``name`` is the user that jobs are submitted by; several tokens may share it. ``scopes`` and
    ``quotas`` are what :mod:`service.auth` makes of them.
    """

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


class AuditRow(Base):
    """Who changed what, or tried to. ``token_id`` is absent where no valid token was shown."""

    __tablename__ = "audit"

    id: Mapped[RowId]
    at: Mapped[float] = mapped_column(index=True)
    token_id: Mapped[str | None] = mapped_column(String(TOKEN_ID_LENGTH))
    action: Mapped[str] = mapped_column(String(100))
    subject: Mapped[str] = mapped_column(FreeText())
    detail: Mapped[Document]
    client: Mapped[str] = mapped_column(String(100))


class IdempotencyRow(Base):
    """The answer a request with an ``Idempotency-Key`` got, for whoever sends it again."""

    __tablename__ = "idempotency"

    token_id: Mapped[str] = mapped_column(String(TOKEN_ID_LENGTH), primary_key=True)
    key: Mapped[str] = mapped_column(String(200), primary_key=True)
    request_digest: Mapped[Digest]
    status: Mapped[int]
    answer: Mapped[Document]
    created_at: Mapped[float] = mapped_column(index=True)


class PipelineRow(Base):
    """An uploaded Halide pipeline. ``description`` is what the contained process found in it.

    Its bytes lie on disk, named by the digest.
    """

    __tablename__ = "pipelines"

    digest: Mapped[Digest] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(100), index=True)
    submitted_by: Mapped[str] = mapped_column(String(100))
    upload_bytes: Mapped[int]
    description: Mapped[Document]
    created_at: Mapped[float]

    __table_args__ = (Index(None, "submitted_by", "created_at"),)


class HeartbeatRow(Base):
    """When a service on ``machine`` last proved that it can write."""

    __tablename__ = "heartbeats"

    machine: Mapped[str] = mapped_column(String(100), primary_key=True)
    at: Mapped[float]
