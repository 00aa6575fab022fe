"""No page asks the database more often because there is more to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import event

from db.devices.roster import SqlRoster
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_more_pages import stored
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, config, ok, spec
from tuner.conformance.stores import new_job
from tuner.measure.farm.roster import Enrolment
from tuner.records.batch import BatchPlan
from tuner.records.trial import JobState, PendingTrial

LogIn = Callable[..., Browser]
PAGES = (
    "/ui/jobs",
    "/ui/jobs/{job}",
    "/ui/networks/{network}",
    "/ui/networks/{network}/live",
    "/ui/jobs/{job}/live",
    "/ui/jobs/{job}/trials?order=number",
    "/ui/jobs/{job}/trials/1",
    "/ui/jobs/{job}/analysis",
    "/ui/jobs/{job}/analysis/figures",
    "/ui/schedules",
    "/ui/compare?kind=targets&own=hexagon-v66&other=hexagon-v66",
    "/ui/compare?own={job}&other={job}",
    "/ui/farm",
    "/ui/farm/device-0",
    "/ui/submit",
)
MOST_QUERIES = 25
"""On one page, that for its session included."""


@contextmanager
def counted(store: SqlStore) -> Iterator[list[str]]:
    asked: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            asked.append(statement)

    event.listen(store._engine, "before_cursor_execute", note)
    yield asked
    event.remove(store._engine, "before_cursor_execute", note)


def fill(store: SqlStore, jobs: int, trials: int, seed: int) -> str:
    roster = SqlRoster(store)
    for number in range(jobs):
        roster.enrol(Enrolment(f"device-{number}", "phone", "hardware"))
        roster.quarantine(f"device-{number}", "once")
        roster.release(f"device-{number}", "more")
        stored(store, 1000 + number, m=8 * (seed + number + 1), seed=seed + number)
        store.claim(store.create_job(spec(), SPACE, TOOLCHAIN).id)
        store.create_batch(BatchPlan(name=""), [new_job(str(n)) for n in range(jobs)])
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    made = artifact(99)
    numbers = range(1, trials + 1)
    store.commit(
        job.id, token, started=[PendingTrial(n, config(2 ** (n % 4)), "tpe") for n in numbers]
    )
    finished = [ok(n, made, 1000 + n, config=config(2 ** (n % 4))) for n in numbers]
    store.commit(job.id, token, finished=finished, artifacts=[made])
    store.release(job.id, token, JobState.DONE)
    return job.id


def test_the_number_of_queries_does_not_grow(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.ADMIN)

    def queries(job: str) -> dict[str, int]:
        counts = {}
        network = next(job.submission.batch for job in store.jobs() if job.submission.batch)
        for page in PAGES:
            with counted(store) as asked:
                answer = browser.get(page.format(job=job, network=network))
            assert answer.status_code == 200, page
            counts[page] = len(asked)
        return counts

    few = queries(fill(store, jobs=1, trials=2, seed=0))
    many = queries(fill(store, jobs=5, trials=20, seed=1))
    # A token is read again at most once a second, whatever page that falls on.
    grown = {page: (few[page], many[page]) for page in PAGES if many[page] > few[page] + 1}
    assert grown == {}
    assert max(many.values()) <= MOST_QUERIES + 1  # the token again
