"""A config that was found in its space is judged again only if something it depends on changed."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update

from db.models import ScheduleRow
from db.schedules import validation
from db.schedules.serving import ServingRow
from db.schedules.validation import Validator, seal_of
from db.sql_store import SqlStore
from tests.db.serving_conformance import SHAPE, lookup
from tests.service.stored import a_config, problem, store_schedule
from tuner.codegen import judged
from tuner.records.candidate import Problem
from tuner.space import Config

pytestmark = pytest.mark.sqlite


@pytest.fixture
def of() -> Problem:
    return problem(**SHAPE)


def stored(store: SqlStore, of: Problem) -> ServingRow:
    [row] = store.fitting(lookup(of))
    return row


def sealed(row: ServingRow, of: Problem) -> ServingRow:
    """``row`` as if it had been stored so."""
    named = ("config_digest", "generator", "symbol", "artifact_digest")
    return row._replace(seal=seal_of(of, **{name: getattr(row, name) for name in named}))


@pytest.fixture
def judgements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The configs that a space was made for."""
    seen: list[str] = []
    real = validation.outside_space

    def noting(of: Problem, config: object, *rest: object) -> str:
        seen.append(json.dumps(config))
        return real(of, config, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(validation, "outside_space", noting)
    return seen


def test_a_stored_schedule_was_judged_by_who_stored_it(
    store: SqlStore, of: Problem, judgements: list[str]
) -> None:
    store_schedule(store, of, 100)
    assert Validator(store.files, store.require_artifacts).fault(stored(store, of), of) == ""
    assert judgements == []


@pytest.mark.parametrize("change", ["none yet", "other code", "another config", "another problem"])
def test_a_mark_of_anything_else_is_none(
    store: SqlStore,
    of: Problem,
    judgements: list[str],
    monkeypatch: pytest.MonkeyPatch,
    change: str,
) -> None:
    store_schedule(store, of, 100)
    row = stored(store, of)
    if change == "none yet":
        row = row._replace(judged="")
    elif change == "other code":
        monkeypatch.setattr(judged, "_code", lambda: "f" * 64)
    elif change == "another config":
        other = a_config(of, 99)
        row = row._replace(config=json.dumps(other.as_dict()), config_digest=other.digest)
    else:
        of = problem(m=65, n=128, k=128)
    Validator(store.files, store.require_artifacts).fault(sealed(row, of), of)
    assert len(judgements) == 1


def test_a_config_outside_the_space_gets_no_mark_and_is_found_out(
    store: SqlStore, of: Problem
) -> None:
    outside = Config({**a_config(of).as_dict(), "unheard_of": 1})
    assert judged.judge(of, "halide", outside) == ""
    store_schedule(store, of, 100, config=outside)
    row = stored(store, of)
    assert row.judged == ""
    assert "outside the space" in Validator(store.files, store.require_artifacts).fault(row, of)


def test_a_config_that_was_edited_with_its_digest_is_found_out(
    store: SqlStore, of: Problem
) -> None:
    store_schedule(store, of, 100)
    outside = Config({**a_config(of).as_dict(), "unheard_of": 1})
    with store.writing() as session:
        values = {"config": outside.as_dict(), "config_digest": outside.digest}
        session.execute(update(ScheduleRow).values(**values))
    row = sealed(stored(store, of), of)
    assert "outside the space" in Validator(store.files, store.require_artifacts).fault(row, of)


def test_code_that_changed_since_it_was_loaded_vouches_for_nothing(
    of: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = a_config(of)
    assert judged.judge(of, "halide", config)
    judged._code.cache_clear()
    monkeypatch.setattr(judged, "_STARTED_AT", 0.0)
    try:
        assert judged.judge(of, "halide", config) == ""
    finally:
        judged._code.cache_clear()
