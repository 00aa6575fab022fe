"""The tables of the models are made from nothing, wholly or not at all."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

import db.schema
from db import open_store
from db.base import Base
from db.engine import find_url, make_engine, place_of
from db.jobs.batches import keep_plan, plan_of
from db.schema import SCHEMA_VERSION, create, ensure_schema
from tests.tuner.jobs.test_network_plans import LAYERS, PLAN
from tuner.conformance.stores import NETWORK, new_job
from tuner.errors import StoreError, UserError
from tuner.identity import digest_of


def new_engine(path: Path) -> Engine:
    return make_engine(find_url(f"sqlite:///{path}"), busy_timeout_s=1.0)


def _name(index: Any) -> str:
    return str(index.name)


VERSION, DIGEST = "0002", "f7829bf370939ea27ee750154ef6a79ec800b8326aa5668134e2020fbafc4e72"


def test_a_change_of_the_models_raises_the_version(tmp_path: Path) -> None:
    """Or two builds would take each other's databases for their own."""
    engine = new_engine(tmp_path / "a.sqlite")
    ensure_schema(engine, place_of(engine.url))
    made = [
        str(statement.compile(dialect=postgresql.dialect()))
        for table in Base.metadata.sorted_tables
        for statement in (CreateTable(table), *map(CreateIndex, sorted(table.indexes, key=_name)))
    ]
    assert (SCHEMA_VERSION, digest_of(made)) == (VERSION, DIGEST), "raise both, here and there"
    assert set(inspect(engine).get_table_names()) == {*Base.metadata.tables, "schema_version"}


def test_a_plan_is_kept_with_its_network_and_damage_to_it_is_told(state: Path) -> None:
    with closing(open_store()) as store:
        made = store.create_batch(replace(NETWORK, layers=LAYERS), [new_job("a", "b")])
        keep_plan(store, made, PLAN)
        assert plan_of(store, made.id) == PLAN
        assert store.batch(made.id) == made
        with pytest.raises(UserError, match="a plan of 3 layers for three layers"):
            keep_plan(store, replace(made, layers=LAYERS[:2]), PLAN)
        with store.writing() as session:
            session.execute(text("UPDATE batches SET plan = '{}'"))
        with pytest.raises(StoreError, match=f"the plan of batch {made.id} cannot be read"):
            plan_of(store, made.id)


def test_a_creation_that_fails_leaves_nothing(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def create_and_fail(connection: Any) -> None:
        create(connection)
        assert inspect(connection).has_table("trials")
        raise RuntimeError("power cut")

    monkeypatch.setattr(db.schema, "create", create_and_fail)
    with pytest.raises(RuntimeError, match="power cut"):
        open_store()
    assert inspect(new_engine(state / "hvxtune.sqlite")).get_table_names() == []
    monkeypatch.undo()
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(state))
    with closing(open_store()) as store:
        assert store.jobs() == []


@pytest.mark.usefixtures("durable")
def test_sqlite_is_set_up_to_keep_what_it_confirmed() -> None:
    with closing(open_store()) as store, store._engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    full = 2
    assert pragmas == {"journal_mode": "wal", "synchronous": full, "foreign_keys": 1}
