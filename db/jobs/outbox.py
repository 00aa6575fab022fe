"""The ends of jobs on their way to webhooks: written with the end itself, kept until delivered.

Services take messages under a lease, so that of several on one database one sends each; a service
that dies while it sends leaves a lease that runs out, and another sends the message again. So every
message arrives at least once, under the same id.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from sqlalchemy import delete, func, insert, or_, select, update

from db.access.audience import EVERYBODYS
from db.catalogue import insert_unless_there, rows_changed
from db.service_models import DeliveryRow, WebhookRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from db.sql_store import SqlStore
    from tuner.records.trial import Job

LEASE_S = 60.0
"""Longer than sending takes, with its time-out."""
KEPT_S = 30 * 24 * 3600.0
"""How long the outcome of a message is kept."""
_MOST_NOTE = 500


@dataclass(frozen=True)
class Webhook:
    """Notifies ``tenant`` when ``job`` ends, or without one when any of their jobs ends; with
    ``everybodys``, when anybody's job ends."""

    id: str
    tenant: str
    job: str | None
    everybodys: bool
    url: str
    secret: str
    created_at: float


@dataclass(frozen=True)
class Message:
    """One to be sent now; ``attempts`` counts this one."""

    id: str
    url: str
    secret: str
    body: str
    tenant: str
    attempts: int


@dataclass(frozen=True)
class Delivery:
    """The delivery of a message. ``due_at`` is when it is tried again; without it, it was delivered
    or, without ``delivered_at`` too, given up."""

    id: str
    job: str
    created_at: float
    attempts: int
    due_at: float | None
    status: int | None
    error: str
    delivered_at: float | None


def add_webhook(store: SqlStore, webhook: Webhook) -> None:
    """Stores a new one. If its job has already ended, the message is queued at once."""
    values = {
        "id": webhook.id,
        "tenant": webhook.tenant,
        "audience": webhook.tenant,
        "job_id": webhook.job,
        "everybodys": webhook.everybodys,
        "url": webhook.url,
        "secret": webhook.secret,
        "created_at": webhook.created_at,
    }
    with store.writing() as session:
        session.execute(insert(WebhookRow).values(**values))
        if webhook.job is not None:
            job = store.job(webhook.job)
            if job.state.ended:
                note_end(session, job)


def webhooks_of(store: SqlStore, tenant: str | None) -> list[Webhook]:
    """Those of ``tenant``, or of everybody; newest first, without those that were removed."""
    wanted = select(WebhookRow).where(WebhookRow.removed_at.is_(None))
    if tenant is not None:
        wanted = wanted.where(WebhookRow.tenant == tenant)
    with store.reading() as session:
        rows = session.scalars(wanted.order_by(WebhookRow.created_at.desc(), WebhookRow.id))
        return [_webhook(row) for row in rows]


def find_webhook(store: SqlStore, webhook_id: str) -> Webhook | None:
    """The one with this id, unless it was removed."""
    with store.reading() as session:
        row = session.get(WebhookRow, webhook_id)
        return None if row is None or row.removed_at is not None else _webhook(row)


def remove_webhook(store: SqlStore, webhook_id: str) -> None:
    """Nothing more is sent to it, nor what still waits."""
    with store.writing() as session:
        mine = WebhookRow.id == webhook_id
        session.execute(update(WebhookRow).where(mine).values(removed_at=time.time()))
        waiting = update(DeliveryRow).where(
            DeliveryRow.webhook_id == webhook_id, DeliveryRow.due_at.is_not(None)
        )
        session.execute(waiting.values(due_at=None, error="the webhook was removed"))


def deliveries_of(store: SqlStore, webhook_id: str, limit: int) -> list[Delivery]:
    """The deliveries of the newest messages to a webhook."""
    wanted = select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
    newest = wanted.order_by(DeliveryRow.created_at.desc(), DeliveryRow.id).limit(limit)
    with store.reading() as session:
        return [
            Delivery(
                row.id,
                row.job_id,
                row.created_at,
                row.attempts,
                row.due_at,
                row.status,
                row.error,
                row.delivered_at,
            )
            for row in session.scalars(newest)
        ]


def note_end(session: Session, job: Job) -> None:
    """Queues the messages about the end of ``job``, in the transaction that ends it."""
    asked = (
        select(WebhookRow.id)
        .where(WebhookRow.removed_at.is_(None))
        .where(
            or_(
                WebhookRow.job_id == job.id,
                WebhookRow.job_id.is_(None)
                & or_(WebhookRow.everybodys, WebhookRow.tenant == job.submission.owner),
            )
        )
        .execution_options(**EVERYBODYS)  # no matter who ends the job
    )
    now = time.time()
    for webhook_id in session.scalars(asked).all():
        values = {
            "id": f"msg_{uuid4().hex}",
            "webhook_id": webhook_id,
            "job_id": job.id,
            "body": json.dumps(_body(job, now), separators=(",", ":")),
            "created_at": now,
            "due_at": now,
        }
        insert_unless_there(session, DeliveryRow, values, ("webhook_id", "job_id"))


def _body(job: Job, at: float) -> dict[str, Any]:
    """In the form of Standard Webhooks: what happened, when, to what."""
    problem = job.spec.problem
    return {
        "type": "job.ended",
        "timestamp": datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds"),
        "data": {
            "job": job.id,
            "state": job.state.value,
            "note": job.note[:_MOST_NOTE],
            "kernel": problem.workload.kernel,
            "display_name": job.submission.kernel_label or problem.workload.kernel,
            "params": dict(problem.workload.params),
            "contract": problem.contract.value,
            "target": problem.target.name,
            "owner": job.submission.owner,
            "user": job.submission.user,
            "batch": job.submission.batch,
        },
    }


def take_due(store: SqlStore, most: int) -> list[Message]:
    """Leases messages that are due, at most ``most`` and one of each tenant: who never answers
    keeps others waiting no longer than a time-out."""
    now = time.time()
    free = DeliveryRow.leased_until.is_(None) | (DeliveryRow.leased_until < now)
    due = (
        select(DeliveryRow, WebhookRow)
        .join(WebhookRow, DeliveryRow.webhook_id == WebhookRow.id)
        .where(DeliveryRow.due_at <= now, free)
        .order_by(DeliveryRow.due_at)
    )
    first = (
        select(func.min(DeliveryRow.due_at))
        .join(WebhookRow, DeliveryRow.webhook_id == WebhookRow.id)
        .where(DeliveryRow.due_at <= now, free)
        .group_by(WebhookRow.tenant)
    )
    with store.reading() as session:  # polls must not take the write lock
        if session.scalar(due.with_only_columns(DeliveryRow.id).limit(1)) is None:
            return []
        found = session.execute(due.where(DeliveryRow.due_at.in_(first)).limit(10 * most)).all()
    of_tenants = {hook.tenant: (row, hook) for row, hook in reversed(found)}
    taken: list[Message] = []
    with store.writing() as session:
        for row, hook in list(of_tenants.values())[:most]:
            lease = (
                update(DeliveryRow)
                .where(DeliveryRow.id == row.id, DeliveryRow.attempts == row.attempts)
                .where(DeliveryRow.due_at == row.due_at)
                .values(leased_until=now + LEASE_S, attempts=row.attempts + 1)
            )
            if rows_changed(session, lease) == 1:
                taken.append(
                    Message(row.id, hook.url, hook.secret, row.body, hook.tenant, row.attempts + 1)
                )
    return taken


def note_delivered(store: SqlStore, message: Message, status: int) -> None:
    """It arrived: it is not sent again."""
    _note(store, message, status=status, error="", due_at=None, delivered_at=time.time())


def note_failed(
    store: SqlStore, message: Message, status: int | None, error: str, again_at: float | None
) -> None:
    """It did not arrive; it is tried again at ``again_at``, or given up."""
    _note(store, message, status=status, error=error[:500], due_at=again_at)


def _note(store: SqlStore, message: Message, **values: Any) -> None:
    # If the lease has run out, another attempt may have come further: it is not undone.
    mine = (DeliveryRow.id == message.id) & (DeliveryRow.attempts == message.attempts)
    with store.writing() as session:
        noted = update(DeliveryRow).where(mine, DeliveryRow.due_at.is_not(None))
        session.execute(noted.values(leased_until=None, **values))


def forget_old(store: SqlStore) -> None:
    """Deletes what nobody will look at any more."""
    ended = DeliveryRow.due_at.is_(None) & (DeliveryRow.created_at < time.time() - KEPT_S)
    with store.writing() as session:
        session.execute(delete(DeliveryRow).where(ended))


def _webhook(row: WebhookRow) -> Webhook:
    return Webhook(
        row.id, row.tenant, row.job_id, row.everybodys, row.url, row.secret, row.created_at
    )
