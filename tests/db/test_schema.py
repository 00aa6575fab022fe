"""Migrations make exactly the tables of the models, from nothing, wholly or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

import db.schema
from db import models, open_store, service_models  # noqa: F401 - fills the metadata
from db.base import Base
from db.devices import models as device_models  # noqa: F401 - fills the metadata
from db.engine import find_url, make_engine, place_of
from db.files import models as file_models  # noqa: F401 - fills the metadata
from db.jobs.annotations import annotate
from db.jobs.batches import batch_progress, keep_plan, listed_page, newest_like, plan_of
from db.jobs.queries import JobFilters
from db.models import ProblemRow, WorkloadRow
from db.records import problem_record
from db.schedules.first_sources import FIRST_SOURCES
from db.schedules.validation import seal_fits
from db.schema import MIGRATIONS, SCHEMA_VERSION, downgrade, ensure_schema, upgrade
from db.sql_store import SqlStore
from tests.tuner.jobs.test_network_plans import LAYERS, PLAN
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, measurement, ok, spec
from tuner.conformance.stores import NETWORK, new_job
from tuner.errors import StoreError, UserError
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.annotation import Annotation
from tuner.records.trial import JobState, Submission


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


def test_measurements_from_before_keep_their_packets_and_stalls(tmp_path: Path) -> None:
    with new_engine(tmp_path / "a.sqlite").begin() as connection:
        upgrade(connection, "0005")
        for table, row in (
            ("toolchains", "(1, 'tool', '{}', 0)"),
            ("artifacts", "('a', 'f', 1, '{}', 'b', 1, 1, 0)"),
            ("measurements", "(1, 'a', 'model', 'q', 10, 7, 3, 1, '[]', '{}', 64, 9, 'warm')"),
        ):
            connection.exec_driver_sql(f"INSERT INTO {table} VALUES {row}")  # noqa: S608
        upgrade(connection)
        kept = connection.exec_driver_sql(
            "SELECT cycles, packets, stalls, temperature_c FROM measurements"
        )
        assert kept.one() == (10, 7, 3, None)


def test_schedules_from_before_are_kept_and_one_of_a_problem_is_handed_out(tmp_path: Path) -> None:
    values = "'model', 1, 10, '{}', 'c', 'halide', 1, 'a', 's', NULL, NULL, '{}', 2"
    insert = f"INSERT INTO schedules VALUES (?, 1, {values}, ?, ?, '')"  # noqa: S608 - as above
    with new_engine(tmp_path / "a.sqlite").begin() as connection:
        upgrade(connection, "0010")
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = on")
        connection.exec_driver_sql(insert, (7, "x-1", None))
        upgrade(connection, "0011")
        connection.exec_driver_sql(insert, (8, "x-2", 3.0))
        kept = connection.exec_driver_sql("SELECT id, public_id FROM schedules ORDER BY id")
        assert kept.all() == [(7, "x-1"), (8, "x-2")]
        with pytest.raises(IntegrityError, match="UNIQUE"):
            connection.exec_driver_sql(insert, (9, "x-3", None))
        connection.exec_driver_sql("DELETE FROM schedules")  # what they refer to is not there


def test_bests_from_before_are_those_of_the_kernels_as_they_were(tmp_path: Path) -> None:
    """What was stored before sources were kept is found, sealed, as of the first known sources."""
    kernel = find_kernel("gemm_u8")
    made = kernel.problem({}, Contract.STATIC, find_target("hexagon-v66"))
    first = FIRST_SOURCES["gemm_u8", kernel.version]
    before = replace(made, workload=replace(made.workload, source=""))
    now = replace(made, workload=replace(made.workload, source=first))
    rows = {
        "workloads": "(3, :workload, 'gemm_u8', :version, :params)",
        "targets": "(4, :target, 'hexagon-v66', 'v66', NULL, :figures)",
        "problems": "(5, :problem, 3, 4, 'static')",
        "schedules": "(7, 5, 'model', 1, 10, '{}', 'c', 'halide', 1, 'a', 's', NULL, NULL, '{}', 2,"
        " 'x-1', NULL, '')",
    }
    values = {
        "workload": before.workload.digest,
        "version": kernel.version,
        "params": json.dumps(dict(before.workload.params)),
        "target": before.target.digest,
        "figures": json.dumps(before.target.as_dict()),
        "problem": before.digest,
    }
    with new_engine(tmp_path / "a.sqlite").begin() as connection:
        upgrade(connection, "0011")
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = on")
        for table, row in rows.items():
            connection.execute(text(f"INSERT INTO {table} VALUES {row}"), values)  # noqa: S608
        upgrade(connection)
        session = Session(connection)
        assert session.scalars(select(WorkloadRow.digest)).one() == now.workload.digest
        assert session.scalars(select(ProblemRow.digest)).one() == now.digest
        assert problem_record(session.get_one(ProblemRow, 5)) == now
        sealed = session.execute(text("SELECT * FROM schedules")).one()
        assert seal_fits(sealed, now)
        assert not seal_fits(sealed, before)
        session.execute(text("DELETE FROM schedules"))  # what they refer to is not there


def test_schedules_from_before_say_how_the_caches_were_and_were_judged_by_nobody(
    tmp_path: Path,
) -> None:
    with new_engine(tmp_path / "a.sqlite").begin() as connection:
        upgrade(connection, "0011")
        connection.exec_driver_sql("PRAGMA defer_foreign_keys = on")
        for number, cache in enumerate(("warm", "cold"), start=1):
            connection.exec_driver_sql(
                "INSERT INTO measurements (id, artifact_digest, fidelity, device, cycles, verified,"
                " samples, breakdown, code_bytes, cache)"
                " VALUES (?, 'a', 'model', 'q', 10, 1, '[]', '{}', 64, ?)",
                (number, cache),
            )
            connection.exec_driver_sql(
                "INSERT INTO schedules (id, problem_id, fidelity, toolchain_id, cycles, config,"
                " config_digest, generator, measurement_id, artifact_digest, symbol, provenance,"
                " updated_at) VALUES (?, ?, 'model', 1, 10, '{}', 'c', 'halide', ?, 'a', 's',"
                " '{}', 2)",
                (number, number, number),
            )
        upgrade(connection)
        kept = connection.exec_driver_sql("SELECT cache, judged FROM schedules ORDER BY id")
        assert kept.all() == [("warm", ""), ("cold", "")]
        for table in ("schedules", "measurements"):  # what they refer to is not there
            connection.exec_driver_sql(f"DELETE FROM {table}")  # noqa: S608 - as above


def test_jobs_of_a_batch_from_before_are_a_batch_without_a_record(state: Path) -> None:
    state.mkdir(mode=0o700)
    place = state / "hvxtune.sqlite"
    with new_engine(place).begin() as connection:
        upgrade(connection, "0017")
    with closing(open_store(f"sqlite:///{place}")) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann")).id
    with new_engine(place).begin() as connection:
        downgrade(connection, "0019")
        connection.execute(text("DROP TABLE batches"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0017'"))
        connection.execute(text("UPDATE jobs SET batch_id = '3f9c00aa21bc'"))
    with closing(open_store(f"sqlite:///{place}")) as store:
        found = store.batch("3f9c")
        assert [member.job for member in found.members] == [job]
        assert (found.name, found.submission.user) == ("", "ann")
        assert listed_page(store, JobFilters(), None, 9)[0][1] == batch_progress(store, "3f9c")


def test_networks_from_before_have_no_edges_and_no_plan(state: Path) -> None:
    state.mkdir(mode=0o700)
    place = state / "hvxtune.sqlite"
    with closing(open_store(f"sqlite:///{place}")) as store:
        made = store.create_batch(NETWORK, [new_job("a", "c"), new_job("b")])
    with new_engine(place).begin() as connection:
        downgrade(connection, "0019")
        document = json.loads(connection.execute(text("SELECT document FROM batches")).scalar_one())
        for layer in document["layers"]:
            del layer["reads"], layer["output_bytes"]
        now = {"document": json.dumps(document)}
        connection.execute(text("UPDATE batches SET document = :document"), now)
        connection.execute(text("ALTER TABLE batches DROP COLUMN plan"))
        connection.execute(text("UPDATE alembic_version SET version_num = '0018'"))
    with closing(open_store(f"sqlite:///{place}")) as store:
        assert store.batch(made.id) == made
        assert plan_of(store, made.id) is None


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
    revisions = [revision.revision for revision in script.walk_revisions()]
    assert revisions == sorted(revisions, reverse=True), "versions are compared by their order"


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


def test_the_last_migrations_go_down_and_up_with_data_in_them(state: Path) -> None:
    state.mkdir(mode=0o700)
    place = state / "hvxtune.sqlite"
    with closing(open_store(f"sqlite:///{place}")) as store:
        down_and_up(store, lambda: open_store(f"sqlite:///{place}"))


EVENT_COUNTS = {"loops": [0], "counts": [{"packets": 700, "l2_accesses": 300}]}


def down_and_up(store: SqlStore, again: Callable[[], SqlStore]) -> None:
    """Jobs, trials and artifacts of ``store`` are the same after going down to 0019 and up; what
    older schemas do not keep, counted events and what people wrote, is gone."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
    token = store.claim(job.id)
    made = artifact(1)
    measured = replace(measurement(), event_counts=EVENT_COUNTS)
    store.commit(job.id, token, finished=[ok(0, made, measurement=measured)], artifacts=[made])
    store.release(job.id, token, JobState.DONE)
    annotate(store, job.id, comment="lost", add_tags=["lost"])
    trials, counted = store.trials(job.id), store.counted_trials(job.id)
    assert [one.event_counts for one in counted] == [EVENT_COUNTS]
    with store.transaction() as session:
        downgrade(session.connection(), "0019")
        assert not inspect(session.connection()).has_table("artifact_marks")
    with closing(again()) as upgraded:
        assert upgraded.job(job.id).state is JobState.DONE
        assert upgraded.trials(job.id) == trials
        assert upgraded.counted_trials(job.id) == [replace(counted[0], event_counts=None)]
        assert upgraded.artifact(made.digest) == made
        assert upgraded.summary(job.id).annotation == Annotation()
        annotate(upgraded, job.id, comment="again")
        upgraded.mark_artifacts()  # by one who has the artifacts of before


def test_going_down_does_not_throw_away_artifacts(state: Path) -> None:
    with closing(open_store(artifacts="database:")) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        store.commit(job.id, store.claim(job.id), artifacts=[artifact(1)])
        with (
            pytest.raises(RuntimeError, match="artifacts lie in the database"),
            store.transaction() as session,
        ):
            downgrade(session.connection(), "0019")
        assert store.artifact(artifact(1).digest) == artifact(1)
