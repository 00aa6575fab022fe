"""PostgreSQL's own matters, against a real server started here: backups, failures.

`make test-postgresql` runs the suites of stores, services and pages over it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from db import (  # noqa: F401 - fills the metadata
    device_models,
    models,
    open_store,
    service_models,
    sql_store,
)
from db.access.tokens import Token, add_token
from db.clock import DatabaseClock, database_now
from db.exchange import copy_store
from db.exchange.whole import one_moment
from db.jobs import results
from db.jobs.annotations import annotate
from db.jobs.claims import lease_s, locked, locked_claim, take
from db.jobs.queue import _ONE_CHOOSES, ClaimedJob
from db.models import JobRow
from db.place import URL_VARIABLE
from db.sql_store import SqlStore
from tests.db.backup_conformance import BackupConformance, MakeStore, contents, fill, in_use
from tests.db.job_queue_conformance import give_token
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tests.db.test_kill import kill_rounds
from tests.db.test_two_processes import (
    test_a_new_database_may_be_opened_by_several_processes_at_once as open_at_once,
)
from tests.db.test_two_processes import (
    test_two_processes_commit_at_once_and_lose_nothing as commit_at_once,
)
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, ok, spec
from tuner.errors import StoreError, UserError
from tuner.paths import STATE_DIR_VARIABLE
from tuner.records.annotation import Annotation
from tuner.records.trial import Submission

pytestmark = [pytest.mark.slow, *NEEDS_POSTGRES]


@pytest.fixture(scope="module")
def new_database() -> Iterator[Callable[..., str]]:
    """Makes empty databases, or copies of one that has the tables already."""
    with databases() as make:
        yield make


class TestPostgresBackup(BackupConformance):
    @pytest.fixture
    def store(self, new_database: Callable[..., str]) -> Iterator[SqlStore]:
        with closing(open_store(new_database())) as opened:
            yield opened

    @pytest.fixture
    def elsewhere(
        self,
        new_database: Callable[..., str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[MakeStore]:
        with ExitStack() as stack:

            def make() -> SqlStore:
                monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "elsewhere"))
                return stack.enter_context(closing(open_store(new_database())))

            yield make

    def test_a_database_in_use_is_left_alone(
        self, file: Path, elsewhere: MakeStore, tmp_path: Path
    ) -> None:
        other = elsewhere()
        with closing(open_store(str(other._engine.url.render_as_string(hide_password=False)))):
            in_use(other, file)

    def test_sqlite_is_copied_here_and_back(
        self,
        elsewhere: MakeStore,
        new_database: Callable[..., str],
        tmp_path: Path,
        state: Path,
    ) -> None:
        """In whatever order the server's language has text; objects go into the database."""
        english = "template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"
        with (
            closing(open_store(f"sqlite:///{tmp_path / 'one.sqlite'}")) as source,
            closing(open_store(new_database(english), artifacts="database:")) as server,
            closing(open_store(f"sqlite:///{tmp_path / 'two.sqlite'}")) as back,
        ):
            fill(source)
            for name in ("k-z", "kB", "ka", "k_a"):
                assert add_token(source, Token(name, "ann", "0" * 64, ["read"], {}))
            there = copy_store(source, server)
            assert there.missing == []
            assert [one.bytes for one in server.files.storage.files()]
            assert copy_store(server, back).tables == there.tables
            assert contents(back) == contents(source)


def test_people_annotate_a_job_whose_row_a_conductor_holds(
    new_database: Callable[..., str],
) -> None:
    url = new_database()
    with closing(open_store(url)) as conductor, closing(open_store(url)) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN).id
        with conductor.writing() as session:
            locked(session, job)
            annotate(store, job, comment="now", add_tags=["now"])
            assert store.summary(job).annotation == Annotation("now", ("now",))


@pytest.mark.parametrize("together", [open_at_once, commit_at_once])
def test_several_processes_at_once(
    new_database: Callable[..., str],
    together: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URL_VARIABLE, new_database("template1"))
    together()


def test_a_killed_writer_loses_nothing(
    new_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URL_VARIABLE, new_database())
    kill_rounds(3, seed=4)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("/test_", "/nowhere_", "does not exist"),
        ("hvxtune@", "nobody:secret@", "nobody"),
        ("?host=", "?host=/nowhere", "/nowhere"),
    ],
    ids=["database", "user", "server"],
)
def test_a_server_that_cannot_be_used_is_named_without_the_password(
    new_database: Callable[..., str], old: str, new: str, part: str
) -> None:
    with pytest.raises(StoreError) as refused:
        open_store(new_database().replace(old, new))
    message = str(refused.value)
    assert part in message
    assert "\n" not in message
    assert "postgresql://" in message
    assert URL_VARIABLE in message
    assert "secret" not in message


def test_a_connection_lost_half_way_leaves_nothing_and_the_next_one_works(
    new_database: Callable[..., str],
) -> None:
    with closing(open_store(new_database())) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN)
        with pytest.raises(StoreError, match="cannot be used"), store.writing() as session:  # noqa: PT012
            session.execute(text("UPDATE jobs SET note = 'half'"))
            session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))
        assert store.job(job.id) == job
        assert store.claim(job.id) == 1


def test_sessions_have_time_limits_that_the_url_may_change(
    new_database: Callable[..., str],
) -> None:
    def limits(url: str) -> list[str]:
        with closing(open_store(url)) as store, store.reading() as session:
            names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
            return [str(session.scalar(text(f"SHOW {name}"))) for name in names]

    url = new_database()
    assert limits(url) == ["30s", "5min", "30s"]
    assert limits(f"{url}&options=-c%20lock_timeout%3D7s") == ["7s", "5min", "30s"]
    with closing(open_store(url)) as store, one_moment(store) as connection:
        assert connection.scalar(text("SHOW statement_timeout")) == "0"


def test_a_conductor_frozen_in_mid_transaction_does_not_keep_the_others_from_choosing(
    new_database: Callable[..., str],
) -> None:
    url = new_database()
    soon = f"{url}&options=-c%20idle_in_transaction_session_timeout%3D200ms"
    with closing(open_store(url)) as store, closing(open_store(soon)) as frozen:
        give_token(store, "ann", 1)  # jobs of users with a quota are taken one at a time
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))

        def freeze(session: Session, _mark: str) -> Any:
            session.execute(select(func.pg_advisory_xact_lock(_ONE_CHOOSES)))
            claimed = store.queue().take_next()  # waits until the other's session has ended
            assert claimed is not None
            assert claimed.id == job.id
            return session.execute(select(1))

        with pytest.raises(StoreError, match="cannot be used"):
            frozen.claim_one(freeze)
        assert store.summary(job.id).owner is not None


def test_conductors_that_choose_at_once_do_not_wait_for_each_other(
    new_database: Callable[..., str],
) -> None:
    """While one takes the first in line, another takes the next."""
    url = new_database()
    with closing(open_store(url)) as store, closing(open_store(url)) as slow:
        first, second = (
            store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann")) for _ in range(2)
        )
        taken: list[ClaimedJob | None] = []

        def take_slowly(session: Session, mark: str) -> tuple[str, int] | None:
            token = take(session.connection(), locked_claim(session, first.id), mark)
            taken.append(store.queue().take_next())
            return None if token is None else (first.id, token)

        claimed = slow.claim_one(take_slowly)
    assert claimed is not None
    assert (claimed[0], [one and one.id for one in taken]) == (first.id, [second.id])


def test_a_quota_holds_among_conductors_that_choose_at_once(
    new_database: Callable[..., str],
) -> None:
    url = new_database()
    with closing(open_store(url)) as store, closing(open_store(url)) as slow:
        give_token(store, "ann", 1)
        for _ in range(2):
            store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        both_choose = threading.Barrier(2)

        def together(*_: object) -> bool:  # asked of each while it lines up what waits
            both_choose.wait(PATIENCE_S)
            return True

        with ThreadPoolExecutor(2) as pool:
            queues = [store.queue(), slow.queue()]
            taken = list(pool.map(lambda queue: queue.take_next((), together), queues))
    assert [one is None for one in taken].count(True) == 1


def test_jobs_that_find_the_same_objects_at_once_do_not_lock_each_other_out(
    new_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both refer to objects that are known before either completes them, each in its own order."""
    url, found = new_database(), [artifact(1), artifact(2)]
    both_refer = threading.Barrier(2)
    complete = results.complete_artifact

    def complete_at_once(*given: Any) -> None:
        if threading.get_ident() not in waited:
            waited.append(threading.get_ident())
            both_refer.wait(PATIENCE_S)
        complete(*given)

    waited: list[int] = []
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        stores = [store, other, store]
        jobs = [store.create_job(spec(), SPACE, TOOLCHAIN) for _ in stores]
        tokens = [one.claim(job.id) for one, job in zip(stores, jobs, strict=True)]

        def commit(place: int) -> None:
            ended = [ok(number, one) for number, one in enumerate(found)]
            ordered = found if place else found[::-1]
            stores[place].commit(jobs[place].id, tokens[place], finished=ended, artifacts=ordered)

        commit(2)  # they are known from here on
        monkeypatch.setattr(results, "complete_artifact", complete_at_once)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(commit, range(2)))
        assert len(waited) == 2
        assert [len(store.trials(job.id)) for job in jobs] == [2, 2, 2]


def test_leases_end_by_the_clock_of_the_database(
    new_database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conductor whose clock is a day ahead neither takes jobs from others nor keeps its own."""
    with closing(open_store(new_database())) as store:
        job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ann"))
        started = database_clock(store)
        monkeypatch.setattr(time, "time", lambda now=time.time: now() + 86_400)
        token = store.claim(job.id)
        assert started < lease_end(store) < database_clock(store) + 2 * lease_s()
        set_job(store, owner_host="lab7/1", owner_pid=1)
        with pytest.raises(UserError, match="process 1 on lab7"):
            store.claim(job.id)
        assert store.queue().take_next() is None
        set_job(store, lease_expires_at=DatabaseClock() - 1.0)
        assert store.heartbeat(job.id, token) is None
        assert lease_end(store) > database_clock(store), "extended, as it had ended"
        set_job(store, lease_expires_at=DatabaseClock() - 1.0)
        claimed = store.queue().take_next()
        assert claimed is not None
        assert claimed.token > token


def set_job(store: SqlStore, **columns: object) -> None:
    with store.writing() as session:
        session.execute(update(JobRow).values(**columns))


def database_clock(store: SqlStore) -> float:
    with store.reading() as session:
        return database_now(session)


def lease_end(store: SqlStore) -> float:
    with store.reading() as session:
        return session.scalars(select(JobRow.lease_expires_at)).one() or 0.0
