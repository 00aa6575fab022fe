"""Migrations make exactly the tables of the models, from nothing, wholly or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

import db.schema
from db import models, open_store, service_models  # noqa: F401 - fills the metadata
from db.base import Base
from db.devices import models as device_models  # noqa: F401 - fills the metadata
from db.engine import find_url, make_engine, place_of
from db.files import models as file_models  # noqa: F401 - fills the metadata
from db.jobs.batches import keep_plan, newest_like, plan_of
from db.schema import MIGRATIONS, SCHEMA_VERSION, ensure_schema, upgrade
from tests.tuner.jobs.test_network_plans import LAYERS, PLAN
from tuner.conformance.stores import NETWORK, new_job
from tuner.errors import StoreError, UserError


def new_engine(path: Path) -> Engine:
    return make_engine(find_url(f"sqlite:///{path}"), busy_timeout_s=1.0)


def shape(engine: Engine) -> dict[str, Any]:
    """All tables with their columns, keys, indexes and checks, in an order of its own."""
    found = inspect(engine)
    return {
        table: {
            "columns": [{**column, "type": str(column["type"])} for column in columns],
            "primary key": found.get_pk_constraint(table),
            "foreign keys": sorted(found.get_foreign_keys(table), key=str),
            "unique": sorted(found.get_unique_constraints(table), key=str),
            "checks": sorted(found.get_check_constraints(table), key=str),
            "indexes": sorted(_as_texts(index) for index in found.get_indexes(table)),
        }
        for table in sorted(found.get_table_names())
        if table != "alembic_version"
        for columns in [found.get_columns(table)]
    }


def _as_texts(index: Mapping[str, Any]) -> list[str]:
    """Conditions are equal only if they are the same object."""
    options = {name: str(value) for name, value in index["dialect_options"].items()}
    return [str(index["name"]), str(index["column_names"]), str(index["unique"]), str(options)]


def test_migrations_make_what_the_models_say(tmp_path: Path) -> None:
    migrated, created = new_engine(tmp_path / "a.sqlite"), new_engine(tmp_path / "b.sqlite")
    ensure_schema(migrated, place_of(migrated.url))
    Base.metadata.create_all(created)
    assert shape(migrated) == shape(created)
    assert shape(migrated)["trials"]["checks"], "checks are compared too"
    with migrated.connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, Base.metadata) == []


def test_a_plan_is_kept_with_its_network_and_damage_to_it_is_told(state: Path) -> None:
    with closing(open_store()) as store:
        made = store.create_batch(replace(NETWORK, layers=LAYERS), [new_job("a", "b")])
        keep_plan(store, made, PLAN)
        assert plan_of(store, made.id) == PLAN
        assert store.batch(made.id) == made
        assert newest_like(store, NETWORK.name, LAYERS) == made
        assert newest_like(store, NETWORK.name, LAYERS[:2]) is None
        assert newest_like(store, "another", LAYERS) is None
        with pytest.raises(UserError, match="a plan of 3 layers for three layers"):
            keep_plan(store, replace(made, layers=LAYERS[:2]), PLAN)
        with store.writing() as session:
            session.execute(text("UPDATE batches SET plan = '{}'"))
        with pytest.raises(StoreError, match=f"the plan of batch {made.id} cannot be read"):
            plan_of(store, made.id)


def test_the_version_of_the_code_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    script = ScriptDirectory.from_config(config)
    assert script.get_heads() == [SCHEMA_VERSION]


def test_a_migration_that_fails_leaves_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upgrade_and_fail(connection: Any) -> None:
        upgrade(connection)
        assert inspect(connection).has_table("trials")
        raise RuntimeError("power cut")

    monkeypatch.setattr(db.schema, "upgrade", upgrade_and_fail)
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
