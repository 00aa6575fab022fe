"""What can be read of a store, as JSON: by routes, and by commands in their own process, which do
without a web framework. Errors are :class:`service.http_errors.HttpError`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from db.access import audit as entries
from db.access.tokens import all_tokens
from db.devices.roster import SqlRoster, farm_queue
from db.jobs import queries as job_queries
from db.jobs import trials as trial_queries
from db.jobs.batches import batch_table, id_of_batch, listed_page
from db.jobs.trials import key_trials
from db.sql_store import SqlStore
from service import json_forms
from service.auth.audit import entry_json
from service.auth.tokens import token_json
from service.distances import distance_of_best
from service.doubts import doubt_of_ended
from service.http_errors import HttpError, not_found
from service.schemas import paging
from tuner.errors import UserError

if TYPE_CHECKING:
    from tuner.records.batch import Batch
    from tuner.records.outcome import Outcome
    from tuner.records.trial import Job

Page = dict[str, Any]


def jobs_page(
    store: SqlStore, *, limit: int, cursor: str | None = None, grouped: bool = False, **filters: Any
) -> Page:
    """Jobs, newest first, with their trials counted; ``filters`` are those of
    :class:`db.jobs.queries.JobFilters`."""
    before = None
    if cursor is not None:
        at, job_id = paging.decode(cursor, float, str)
        before = (float(at), str(job_id))
    wanted = job_queries.JobFilters(**filters)
    if grouped:
        return paging.page(
            listed_page(store, wanted, before, limit + 1),
            limit,
            lambda one: json_forms.listed_json(one[1]),
            lambda one: one[0],
        )
    found = job_queries.jobs_page(store, wanted, before, limit + 1)
    return paging.page(
        found, limit, json_forms.overview_json, lambda one: [one.job.created_at, one.job.id]
    )


def job(store: SqlStore, given: str) -> dict[str, Any]:
    """One job, with the trials to look at first."""
    found = find_job(store, given)
    overview = job_queries.job_overview(store, found.id)
    key = key_trials(store, overview.job.id)
    several = len(found.spec.objectives) > 1
    return json_forms.detail_json(
        overview,
        key,
        trial_queries.front_trials(store, found) if several or key.best is None else [key.best],
        trial_queries.promoted_trials(store, found.id),
        doubt_of_ended(store, overview.summary),
        distance_of_best(store, found, key.best),
        trial_queries.failures(store, found.id),
    )


def trials_page(
    store: SqlStore,
    given: str,
    *,
    limit: int,
    cursor: str | None = None,
    outcome: Outcome | None = None,
) -> Page:
    """The finished trials of a job, by number."""
    found = find_job(store, given)
    after = paging.number_before(cursor)
    batch = trial_queries.trials_page(
        store, found.id, outcome, -1 if after is None else after, limit + 1
    )
    roofline = json_forms.job_roofline(found)
    return paging.page(
        batch,
        limit,
        lambda one: json_forms.full_trial_json(one, roofline),
        lambda one: [one.number],
    )


def network(store: SqlStore, given: str) -> dict[str, Any]:
    """A network or set, by its id, the start of one, or its name."""
    return json_forms.batch_table_json(batch_table(store, named_batch(store, given)))


def conductors(store: SqlStore) -> Page:
    """The conductors, and other processes at work."""
    return {"items": json_forms.conductors_json(store)}


def devices(store: SqlStore) -> dict[str, Any]:
    """The devices, and the work that waits for them."""
    now, queue = time.time(), farm_queue(store)
    return {
        "items": [one.as_dict(now) for one in SqlRoster(store).devices()],
        "queue": {"jobs_queued": queue.jobs_queued, "trials_pending": queue.trials_pending},
    }


def pipelines_page(store: SqlStore, *, limit: int, cursor: str | None = None) -> Page:
    """The uploads, newest first."""
    from db.pipelines import newest

    before = None
    if cursor is not None:
        at, number = paging.decode(cursor, float, int)
        before = (float(at), int(number))
    found = newest(store, limit + 1, before)
    return paging.page(
        found, limit, json_forms.pipeline_json, lambda one: [one.created_at, one.number]
    )


def packages_page(_store: SqlStore, *, limit: int, cursor: str | None = None) -> Page:
    """The packages, the one registered last first."""
    from tuner.packages.files import kept_since, read

    found = kept_since()
    if cursor is not None:
        at, digest = paging.decode(cursor, int, str)
        found = [one for one in found if one < (at, digest)]
    return paging.page(
        found, limit, lambda one: json_forms.package_json(read(one[1])), lambda one: [*one]
    )


def tokens(store: SqlStore) -> Page:
    """Every token ever made, newest first, without secrets."""
    return {"items": [token_json(token) for token in all_tokens(store)]}


def audit_page(store: SqlStore, *, limit: int, cursor: str | None = None) -> Page:
    """Changes and refused authentications, newest first."""
    found = entries.newest_entries(store, limit + 1, paging.number_before(cursor))
    return paging.page(found, limit, entry_json, lambda entry: [entry.number])


def find_job(store: SqlStore, given: str) -> Job:
    """The job that a path names by its id or the start of it; 404 without one."""
    try:
        return store.job(given if given.isascii() and given.isalnum() else "")
    except UserError as error:
        raise not_found(
            error.message if given.isalnum() else f"no job '{given[:40]}'",
            accepted=error.accepted,
            next_step="`GET /v1/jobs` lists them",
        ) from None


def find_batch(store: SqlStore, given: str) -> Batch:
    """The batch that a path names by its id or the start of it; 404 without one."""
    try:
        return store.batch(given if given.isascii() and given.isalnum() else "")
    except UserError as error:
        raise _no_batch(given, error) from None


def named_batch(store: SqlStore, given: str) -> str:
    """The id of the batch that a path names by its id, the start of it, or its name; 404 without
    one."""
    try:
        return id_of_batch(store, given if given.isprintable() else "")
    except UserError as error:
        raise _no_batch(given, error) from None


def _no_batch(given: str, error: UserError) -> HttpError:
    return not_found(
        error.message if given.isprintable() else f"no batch '{given[:40]}'",
        accepted=error.accepted,
        next_step="`GET /v1/jobs?grouped=true` lists them",
    )


_READS: Final[Mapping[str, Callable[..., dict[str, Any]]]] = {
    "/v1/jobs": jobs_page,
    "/v1/jobs/([^/]+)": job,
    "/v1/jobs/([^/]+)/trials": trials_page,
    "/v1/networks/([^/]+)": network,
    "/v1/conductors": conductors,
    "/v1/devices": devices,
    "/v1/pipelines": pipelines_page,
    "/v1/packages": packages_page,
    "/v1/tokens": tokens,
    "/v1/audit": audit_page,
}
"""By path."""


def answer(store: SqlStore, path: str, query: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the route at ``path`` answers who sees all of ``store``; ``None`` for others."""
    for pattern, read in _READS.items():
        if (found := re.fullmatch(pattern, path)) is not None:
            return read(store, *map(unquote, found.groups()), **query)
    return None
