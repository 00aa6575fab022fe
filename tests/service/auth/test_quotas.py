"""What a user may ask for in a day."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import update

from db import pipelines
from db.models import JobRow
from db.service_models import PipelineRow
from db.sql_store import SqlStore
from service.auth import Caller, Quotas
from service.auth.quotas import DAY_S, check_submit, check_upload
from service.http_errors import HttpError
from tuner.conformance.records import SPACE, TOOLCHAIN, failed, pending, spec
from tuner.records.trial import Submission

ANN = Caller("a", "ann", quotas=Quotas(trials_per_day=100, upload_bytes_per_day=1000))


def submitted(store: SqlStore, user: str, trials: int | None, age_s: float = 0.0) -> str:
    wanted = spec(trials=trials, seconds=None if trials else 60.0)
    job = store.create_job(wanted, SPACE, TOOLCHAIN, Submission(user=user))
    with store.writing() as session:
        session.execute(
            update(JobRow).where(JobRow.id == job.id).values(created_at=time.time() - age_s)
        )
    return job.id


def uploaded(store: SqlStore, user: str, data: bytes, age_s: float = 0.0) -> None:
    kept, _ = pipelines.keep(store, data, "p", user, {"stages": [], "inputs": [], "outputs": []})
    with store.writing() as session:
        session.execute(
            update(PipelineRow)
            .where(PipelineRow.digest == kept.digest)
            .values(created_at=time.time() - age_s)
        )


def refusal(check, *arguments: object) -> HttpError:
    with pytest.raises(HttpError) as refused:
        check(*arguments)
    return refused.value


def test_budgets_of_the_last_day_are_summed_by_user(store: SqlStore) -> None:
    submitted(store, "ann", 60)
    submitted(store, "ann", 1000, age_s=DAY_S + 1)
    submitted(store, "bob", 1000)
    check_submit(store, ANN, 40)
    refused = refusal(check_submit, store, ANN, 41)
    assert refused.status == 429
    assert "60 trials in the last 24 hours" in refused.message
    assert refused.accepted == "at most 40 trials now"
    assert refused.extra == {"quota": "trials_per_day"}


def test_it_says_when_enough_is_a_day_old(store: SqlStore) -> None:
    submitted(store, "ann", 30, age_s=DAY_S - 600)
    submitted(store, "ann", 60, age_s=DAY_S - 7200)
    waits = {
        wanted: int(refusal(check_submit, store, ANN, wanted).headers["Retry-After"])
        for wanted in (11, 40, 41, 100)
    }
    assert waits[11] == waits[40] == pytest.approx(600, abs=5)
    assert waits[41] == waits[100] == pytest.approx(7200, abs=5)


def test_more_than_a_whole_day_allows_never_fits(store: SqlStore) -> None:
    refused = refusal(check_submit, store, ANN, 101)
    assert refused.status == 422
    assert "Retry-After" not in refused.headers


def test_a_job_without_a_number_of_trials_needs_a_token_without_this_quota(
    store: SqlStore,
) -> None:
    refused = refusal(check_submit, store, ANN, None)
    assert refused.status == 422
    assert "budget.trials" in refused.accepted
    check_submit(store, replace(ANN, quotas=Quotas()), None)


def test_such_a_job_counts_with_the_trials_it_made(store: SqlStore) -> None:
    job_id = submitted(store, "ann", None)
    check_submit(store, ANN, 100)
    token = store.claim(job_id)
    store.commit(job_id, token, started=[pending(1)], finished=[failed(0)])
    check_submit(store, ANN, 98)
    assert refusal(check_submit, store, ANN, 99).status == 429


def test_uploads_of_the_last_day_are_summed_by_user(store: SqlStore) -> None:
    uploaded(store, "ann", b"a" * 600)
    uploaded(store, "ann", b"b" * 900, age_s=DAY_S + 1)
    uploaded(store, "bob", b"c" * 900)
    check_upload(store, ANN, 400)
    refused = refusal(check_upload, store, ANN, 401)
    assert refused.status == 429
    assert refused.extra == {"quota": "upload_bytes_per_day"}
    assert refusal(check_upload, store, ANN, 1001).status == 422


def test_without_quotas_nothing_is_counted(store: SqlStore) -> None:
    submitted(store, "ann", 10**6)
    free = Caller("a", "ann")
    check_submit(store, free, 10**9)
    check_upload(store, free, 10**12)
