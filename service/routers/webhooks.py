"""Webhooks: who is told of the ends of jobs, and the deliveries to them."""

from __future__ import annotations

import base64
import re
import secrets
import time
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response

from db.jobs import outbox
from db.jobs.outbox import Webhook
from db.sql_store import SqlStore
from service.app_state import Store, settings_of
from service.auth import Caller, Scope, require
from service.auth.audit import record
from service.openapi import problems
from service.problem_details import HttpError, not_found
from service.routers.jobs import find_job
from service.schemas.common import NO_QUERY
from service.schemas.webhooks import DeliveryList, IssuedWebhook, NewWebhook, WebhookList
from service.settings import Settings
from service.webhooks.addresses import check_url
from tuner.errors import UserError

router = APIRouter(prefix="/v1", tags=["webhooks"])

MOST_WEBHOOKS = 100
"""Of one owner."""
MOST_DELIVERIES = 100
_SECRET_BYTES = 32

Submitter = Annotated[Caller, Depends(require(Scope.SUBMIT))]


@router.post(
    "/webhooks",
    summary="Be told of the ends of jobs",
    status_code=201,
    response_model=IssuedWebhook,
    responses=problems(404),
    dependencies=[NO_QUERY],
)
def create(
    new: NewWebhook,
    request: Request,
    response: Response,
    caller: Submitter,
    store: Store,
    settings: Annotated[Settings, Depends(settings_of)],
) -> dict[str, Any]:
    """The end of each job is posted to `url`, signed with the `secret` of this answer, repeatedly
    until it is answered with 200 to 299 or two hours have passed. Only public hosts, over https,
    unless the operator allows more."""
    _require_may(new, caller)
    check_url(new.url, settings.webhook_networks)
    job = None if new.job is None else find_job(store, new.job)
    if job is not None and job.submission.owner != caller.owner and not caller.may(Scope.ADMIN):
        raise HttpError(403, f"job {job.id} is another's", accepted="a job of your own, or none")
    made = Webhook(
        id=f"wh_{secrets.token_hex(12)}",
        tenant=caller.owner,
        job=None if job is None else job.id,
        everybodys=new.everybodys,
        url=new.url,
        secret=f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}",
        created_at=time.time(),
    )
    with store.transaction():
        if len(outbox.webhooks_of(store, caller.owner)) >= MOST_WEBHOOKS:
            raise UserError(
                f"{caller.owner} has {MOST_WEBHOOKS} webhooks",
                accepted=f"at most {MOST_WEBHOOKS}",
                next_step="DELETE /v1/webhooks/{id} removes one",
            )
        outbox.add_webhook(store, made)
        record(store, caller, "webhook.create", made.id, {"job": made.job}, request)
    response.headers["Cache-Control"] = "no-store"
    return {**_form(made), "secret": made.secret}


def _require_may(new: NewWebhook, caller: Caller) -> None:
    if new.everybodys and new.job is not None:
        raise UserError("everybodys with a job", next_step="leave one out")
    if new.everybodys and not caller.may(Scope.ADMIN):
        raise HttpError(
            403,
            f"everybody's jobs are not for the token '{caller.name}'",
            accepted=f"a token with {Scope.ADMIN}, or everybodys false",
        )


@router.get(
    "/webhooks",
    summary="The webhooks of the caller's owner",
    response_model=WebhookList,
    dependencies=[NO_QUERY],
)
def listing(caller: Submitter, store: Store) -> dict[str, Any]:
    """Without secrets. Admins see everybody's."""
    whose = None if caller.may(Scope.ADMIN) else caller.owner
    return {"items": [_form(one) for one in outbox.webhooks_of(store, whose)]}


@router.delete(
    "/webhooks/{webhook}",
    summary="Remove a webhook",
    status_code=204,
    responses=problems(404),
    dependencies=[NO_QUERY],
)
def remove(webhook: str, request: Request, caller: Submitter, store: Store) -> Response:
    """Nothing more is sent there, not even waiting messages."""
    found = _find(store, webhook, caller)
    with store.transaction():
        outbox.remove_webhook(store, found.id)
        record(store, caller, "webhook.remove", found.id, None, request)
    return Response(status_code=204)


@router.get(
    "/webhooks/{webhook}/deliveries",
    summary="Deliveries to a webhook",
    response_model=DeliveryList,
    responses=problems(404),
    dependencies=[NO_QUERY],
)
def deliveries(webhook: str, caller: Submitter, store: Store) -> dict[str, Any]:
    """The newest hundred of the last thirty days."""
    found = _find(store, webhook, caller)
    return {"items": [asdict(d) for d in outbox.deliveries_of(store, found.id, MOST_DELIVERIES)]}


def _find(store: SqlStore, webhook_id: str, caller: Caller) -> Webhook:
    is_id = re.fullmatch(r"\w{1,32}", webhook_id, re.ASCII)  # PostgreSQL's text has no NUL
    found = outbox.find_webhook(store, webhook_id) if is_id else None
    if found is None or not (found.tenant == caller.owner or caller.may(Scope.ADMIN)):
        raise not_found(
            f"no webhook '{webhook_id[:40]}'",
            accepted="the id of one of yours",
            next_step="GET /v1/webhooks lists them",
        )
    return found


def _form(webhook: Webhook) -> dict[str, Any]:
    form = asdict(webhook)
    del form["secret"]
    owner = form.pop("tenant")
    return {**form, "owner": owner}
