"""A job as an Optuna study, and optuna-dashboard itself looking at it."""

from __future__ import annotations

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna_dashboard import wsgi

from db.sql_store import SqlStore
from service.study import export
from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    config,
    failed,
    measurement,
    ok,
    pending,
    spec,
)
from tuner.errors import UserError
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState


@pytest.fixture
def job(store: SqlStore) -> str:
    created = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(created.id)
    made = [artifact(1), artifact(2)]
    store.commit(created.id, token, started=[pending(n) for n in (1, 2, 4, 8)])
    store.commit(
        created.id,
        token,
        finished=[ok(1, made[0], 3000), failed(2, Outcome.TIMEOUT), ok(4, made[1], 1000)],
        artifacts=made,
    )
    store.release(created.id, token, JobState.QUEUED)
    return created.id


def test_every_finished_trial_is_in_the_study(store: SqlStore, job: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    exported = export(store, job, storage)
    assert exported.trials == 3
    study = optuna.load_study(study_name=exported.name, storage=storage)
    assert study.best_value == 1000
    assert study.best_params == config(4).as_dict()
    assert study.user_attrs["toolchain"] == TOOLCHAIN
    assert [t.state.name for t in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert study.trials[1].user_attrs["outcome"] == "timeout"
    assert study.trials[1].user_attrs["error"] == "Error: vector lanes"
    assert [t.user_attrs["trial"] for t in study.trials] == [1, 2, 4]
    assert study.trials[0].duration.total_seconds() == pytest.approx(1.25)


@pytest.mark.slow
def test_a_job_with_several_goals_becomes_a_study_with_several_objectives(
    store: SqlStore, tmp_path: Path
) -> None:
    made = [artifact(n) for n in range(3)]
    job = store.create_job(spec(objectives=("cycles", "code_bytes")), SPACE, TOOLCHAIN)
    sizes = {1: (3000, 400), 2: (1000, 500), 4: (3500, 450)}
    trials = [
        ok(n, one, measurement=replace(measurement(cycles), code_bytes=size))
        for one, (n, (cycles, size)) in zip(made, sizes.items(), strict=True)
    ]
    store.commit(job.id, store.claim(job.id), finished=trials, artifacts=made)
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    study = optuna.load_study(study_name=export(store, job.id, storage).name, storage=storage)
    assert study.user_attrs["goals"] == ["cycles", "code_bytes"]
    assert [t.values for t in study.best_trials] == [[3000.0, 400.0], [1000.0, 500.0]]


def test_a_study_is_not_written_twice(store: SqlStore, job: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    export(store, job, storage)
    with pytest.raises(UserError, match="already"):
        export(store, job, storage)


@pytest.mark.parametrize("url", ["x.db", "sqlite:////nowhere/x.db", "oracle://x", ""])
def test_a_storage_that_cannot_be_used_is_named(store: SqlStore, job: str, url: str) -> None:
    with pytest.raises(UserError, match="--storage"):
        export(store, job, url)


def test_optuna_dashboard_opens_it(store: SqlStore, job: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'x.db'}"
    name = export(store, job, storage).name
    dashboard = wsgi(storage)

    def get(path: str) -> Any:
        said: list[str] = []
        environ = {
            "REQUEST_METHOD": "GET",
            "PATH_INFO": path,
            "QUERY_STRING": "",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "wsgi.url_scheme": "http",
            "wsgi.input": BytesIO(),
            "wsgi.errors": BytesIO(),
        }
        body = b"".join(dashboard(environ, lambda status, *_: said.append(status)))
        assert said == ["200 OK"], body
        return json.loads(body)

    listed = get("/api/studies")["study_summaries"]
    assert [study["study_name"] for study in listed] == [name]
    shown = get(f"/api/studies/{listed[0]['study_id']}")
    assert [trial["state"] for trial in shown["trials"]] == ["Complete", "Fail", "Complete"]
    assert {p["name"] for p in shown["union_search_space"]} == set(config(1)) | set(config(4))
    importance = get(f"/api/studies/{listed[0]['study_id']}/param_importances")
    assert "param_importances" in importance
