"""Comments and tags, on every database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from db import open_store
from db.jobs.annotations import annotate, tags_in_use
from db.jobs.batches import listed_page
from db.jobs.queries import JobFilters, jobs_page
from db.sql_store import SqlStore
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.conformance.stores import NETWORK, new_job
from tuner.errors import UserError
from tuner.records.annotation import MOST_CHARACTERS, MOST_TAGS, Annotation
from tuner.records.trial import Submission

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def store() -> Iterator[SqlStore]:
    with open_store() as opened:
        yield opened


@pytest.fixture
def job(store: SqlStore) -> str:
    return store.create_job(spec(), SPACE, TOOLCHAIN).id


def found(store: SqlStore, **filters: object) -> list[str]:
    wanted = JobFilters(**filters)  # type: ignore[arg-type]
    return [one.job.id for one in jobs_page(store, wanted, None, 9)]


def test_comment_and_tags_are_changed_one_by_one(store: SqlStore, job: str) -> None:
    assert store.summary(job).annotation == Annotation()
    annotate(store, job, comment=" two\r\nlines\n", add_tags=["v2", "camera", "v2"])
    annotate(store, job, add_tags=["v3"], remove_tags=["v2", "unknown"])
    assert store.summary(job).annotation == Annotation("two\nlines", ("camera", "v3"))
    annotate(store, job, comment="", add_tags=["v3"], remove_tags=["v3"])
    assert store.summary(job).annotation == Annotation("", ("camera", "v3"))


def test_what_no_terminal_should_show_is_refused(store: SqlStore, job: str) -> None:
    for tag in ("", "Camera", "two words", "ö", "a" * 41, "v2\n", "\0"):
        with pytest.raises(UserError, match="tag '"):
            annotate(store, job, comment="kept back", add_tags=["fine", tag])
    for comment in ("a\x1b[31m", "\0", "x" * (MOST_CHARACTERS + 1)):
        with pytest.raises(UserError, match="a comment of"):
            annotate(store, job, comment=comment)
    assert store.summary(job).annotation == Annotation()
    annotate(store, job, comment="x" * MOST_CHARACTERS + "\n")


def test_people_who_tag_at_once_keep_to_the_limit_together(store: SqlStore, job: str) -> None:
    ready = threading.Barrier(2)

    def add(name: str) -> str:
        with open_store() as own:
            ready.wait()
            try:
                annotate(own, job, add_tags=[f"{name}{n}" for n in range(MOST_TAGS - 3)])
            except UserError as error:
                return error.message
            return ""

    with ThreadPoolExecutor(2) as people:
        told = sorted(people.map(add, "ab"))
    assert told == ["", f"job {job} would have 14 tags"]
    assert len(store.summary(job).annotation.tags) == MOST_TAGS - 3


def test_jobs_are_found_by_what_people_wrote(store: SqlStore, job: str) -> None:
    edges = Submission("ann", kernel_label="Edge detector")
    named = store.create_job(spec(), SPACE, TOOLCHAIN, edges).id
    batch = store.create_batch(NETWORK, [new_job("a", "c"), new_job("b")])
    annotate(store, named, comment="100% of the demo", add_tags=["v2.1"])
    annotate(store, batch.members[1].job, add_tags=["v2.1", "net"])
    assert found(store, tag="net") == [batch.members[1].job]
    assert set(found(store, tag="v2.1")) == {named, batch.members[1].job}
    assert found(store, tag="v2_1") == found(store, tag="v2") == []
    assert found(store, text="100% DEMO") == found(store, text="edge v2.1") == [named]
    assert found(store, kernel="Edge detector") == [named]
    assert len(found(store, kernel="gemm_u8")) == 4
    listed = listed_page(store, JobFilters(tag="v2.1"), None, 9)
    assert [type(one).__name__ for _, one in listed] == ["BatchProgress", "JobOverview"]


def test_what_is_written_to_a_private_job_is_private(store: SqlStore) -> None:
    private = Submission("ann", owner="vision", private=True)
    job = store.create_job(spec(), SPACE, TOOLCHAIN, private).id
    vision, bob = store.seen_by("vision"), store.seen_by("bob")
    annotate(vision, job, comment="our secret", add_tags=["secret"])
    assert tags_in_use(vision) == ["secret"]
    assert tags_in_use(bob) == []
    for filters in ({"tag": "secret"}, {"text": "secret"}):
        assert found(vision, **filters) == [job]
        assert found(bob, **filters) == []
