"""Upgrades while jobs run: the wheel of one release beside that of another, on one database.

The previous release is the last commit of this repository that had an earlier version. The next
one is today's files with another version, and where it matters one migration more.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from db.engine import find_url, make_engine
from db.place import URL_VARIABLE
from tests.db.postgres_server import NEEDS_POSTGRES, databases
from tests.rig.releases import (
    Release,
    migrating,
    next_release,
    previous_commit,
    previous_release,
    this_release,
)
from tuner.conformance.patience import PATIENCE_S, until
from tuner.paths import cache_dir

SHORT, LONG = pytest.mark.slow, pytest.mark.nightly
SMALL = ["-p", "width=256", "-p", "height=8"]
MANY = 1000
"""Trials of a job that must still run at an upgrade, however slow the machine is."""
FINISHED = text(
    "SELECT t.job_id, t.number, t.config_digest, t.outcome, t.artifact_digest, m.cycles"
    " FROM trials t LEFT JOIN measurements m ON m.id = t.measurement_id"
    " WHERE t.outcome IS NOT NULL"
)


@dataclass
class Lab:
    """A state directory and a database, read with plain SQL whatever their schema is."""

    state: Path
    url: str

    @property
    def settings(self) -> dict[str, str]:
        return {URL_VARIABLE: self.url}

    def rows(self, statement: Any = FINISHED) -> list[tuple[Any, ...]]:
        engine = make_engine(find_url(self.url), PATIENCE_S)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(statement)]
        finally:
            engine.dispose()

    def finished(self, job: str) -> int:
        return sum(row[0] == job for row in self.rows())

    def job(self, job: str) -> tuple[str, str]:
        """State and note."""
        [(state, note)] = self.rows(
            text("SELECT state, note FROM jobs WHERE id = :id").bindparams(id=job)
        )
        return state, note

    def check_whole(self, job: str, kept: list[tuple[Any, ...]]) -> int:
        """Each trial once, those of ``kept`` as they were; the fewest cycles among them."""
        now = self.rows()
        assert set(kept) <= set(now), "a committed trial was lost or changed"
        mine = sorted(row for row in now if row[0] == job)
        assert [row[1] for row in mine] == list(range(len(mine)))
        assert len({row[2] for row in mine}) == len(mine), "a config was tried twice"
        assert {row[3] for row in mine} == {"ok"}
        return min(int(row[5]) for row in mine)

    def goes_on(self, job: str) -> list[tuple[Any, ...]]:
        """Waits for two trials more of ``job``; all rows before."""
        kept = self.rows()
        wanted = sum(row[0] == job for row in kept) + 2
        until(lambda: self.finished(job) >= wanted)
        return kept


@dataclass(frozen=True)
class Service:
    """A running ``hvxtune serve``."""

    process: subprocess.Popen[str]
    client: httpx.Client

    def submit(self, trials: int, **more: Any) -> str:
        asked = {
            "kernel": "add_u8",
            "params": {"width": 256, "height": 8},
            "contract": "static",
            "sampler": "random",
            "generator": "halide",
            "workers": 1,
            "budget": {"trials": trials},
            **more,
        }
        answer = self.client.post("/v1/jobs", json=asked)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["jobs"][0]["job"])

    def end(self) -> None:
        """Asks it to finish the candidates in flight, and waits."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0


Start = Callable[..., Service]


@pytest.fixture
def service(lab: Lab) -> Iterator[Start]:
    """Starts services, and ends them after the test."""
    with ExitStack() as stack:

        def start(release: Release, *options: str) -> Service:
            log = lab.state / f"{release.version}.log"
            process = stack.enter_context(
                release.started(
                    ["serve", "--port", "0", "--json", *options], lab.state, log, lab.settings
                )
            )
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            token = (lab.state / "token").read_text().strip()
            client = httpx.Client(
                base_url=json.loads(line)["url"],
                headers={"Authorization": f"Bearer {token}"},
                timeout=PATIENCE_S,
            )
            return Service(process, stack.enter_context(closing(client)))

        yield start


def on(kind: str, *marks: pytest.MarkDecorator) -> Any:
    """A test over a database of this kind."""
    return pytest.param(kind, marks=[*marks, *(NEEDS_POSTGRES if kind == "postgresql" else ())])


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "qemu").symlink_to(cache_dir() / "qemu")  # where the simulator was until 0.2
    if request.param == "sqlite":
        yield Lab(state, f"sqlite:///{state}/hvxtune.sqlite")
        return
    with databases() as new_database:
        yield Lab(state, new_database("template1"))


@pytest.fixture(scope="module")
def coming(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return next_release(tmp_path_factory.mktemp("next"))


def said(log: Path, words: str) -> bool:
    return words in log.read_text()


@pytest.mark.parametrize("lab", [on("sqlite", LONG), on("postgresql", SHORT)], indirect=True)
def test_the_next_release_continues_what_this_one_runs(
    lab: Lab, service: Start, coming: Release, tmp_path: Path
) -> None:
    now, then = this_release(), migrating(coming, tmp_path)
    old = service(now, "--slots", "2")
    job = old.submit(MANY)
    lab.goes_on(job)

    told = then.run(["db", "upgrade"], lab.state, lab.settings)
    assert f"upgraded from schema {now.schema} to {then.schema}" in told
    later = old.submit(2, seed=1)
    why = f"the database is at schema {then.schema}, this hvxtune knows {now.schema}"
    log = lab.state / f"{now.version}.log"
    until(lambda: said(log, why))
    assert lab.job(later) == ("queued", "")
    until(lambda: old.client.get("/readyz").status_code == 503)
    assert why in old.client.get("/readyz").json()["detail"]
    lab.goes_on(job)  # what it has, it goes on with
    old.end()
    kept = lab.rows()
    assert lab.job(job)[0] == "queued"

    conductor = lab.state / "conductor.log"
    with then.started(["cluster", "conductor", "--slots", "2"], lab.state, conductor, lab.settings):
        until(lambda: lab.job(later)[0] == "done")
        lab.goes_on(job)
        then.run(["job", "cancel", job], lab.state, lab.settings)
        until(lambda: lab.job(job)[0] == "cancelled")
    best = lab.check_whole(job, kept)
    lab.check_whole(later, [])
    answer = then.run(
        ["best", "add_u8", *SMALL, "--contract", "static", "--json"], lab.state, lab.settings
    )
    assert json.loads(answer)["cycles"] == best


@pytest.mark.parametrize("lab", [on("sqlite", SHORT)], indirect=True)
def test_releases_of_one_schema_share_the_jobs_and_hand_them_over(
    lab: Lab, service: Start, coming: Release
) -> None:
    """To the next release, and back: an upgrade can be undone while the schema is the same."""
    now = this_release()
    assert coming.schema == now.schema
    assert coming.version > now.version
    job = service(now, "--conductors", "0").submit(MANY)
    with ExitStack() as stack:

        def conductor(release: Release, log: Path) -> subprocess.Popen[str]:
            started = release.started(["cluster", "conductor"], lab.state, log, lab.settings)
            return stack.enter_context(started)

        kept: list[tuple[Any, ...]] = []
        running: subprocess.Popen[str] | None = None
        for turn, release in enumerate((now, coming, now)):
            log = lab.state / f"turn{turn}.log"
            following = conductor(release, log)
            until(lambda log=log: said(log, "fit to run jobs with qemu"))
            if running is not None:
                running.send_signal(signal.SIGTERM)
                assert running.wait(PATIENCE_S) == 0
            until(lambda log=log: said(log, f"job {job} of "))
            kept, running = lab.goes_on(job), following
        now.run(["job", "cancel", job], lab.state, lab.settings)
        until(lambda: lab.job(job)[0] == "cancelled")
    lab.check_whole(job, kept)


@pytest.mark.parametrize("lab", [on("sqlite", SHORT), on("postgresql", LONG)], indirect=True)
def test_what_the_previous_release_runs_is_kept(lab: Lab, service: Start, tmp_path: Path) -> None:
    """It goes on with its jobs at today's schema. One that it leaves is continued if nothing has
    changed that makes objects or cycles, else it says what has."""
    commit = previous_commit()
    if commit is None:
        pytest.skip("the history of this clone does not reach the previous release")
    before, now = previous_release(tmp_path, commit), this_release()
    assert before.version != now.version
    assert before.schema <= now.schema
    old = service(before, "--slots", "2")
    left = old.submit(MANY)
    lab.goes_on(left)
    told = now.run(["db", "upgrade", "--json"], lab.state, lab.settings)
    assert json.loads(told)["before"] == before.schema
    kept = lab.goes_on(left)
    ended = old.submit(2, seed=1)
    until(lambda: lab.job(ended)[0] == "done")
    old.end()
    best = lab.check_whole(ended, kept)
    lab.check_whole(left, kept)
    kept = lab.rows()
    assert lab.job(left)[0] == "queued"

    new = service(now)
    later = new.submit(2, seed=2)
    until(lambda: lab.job(later)[0] == "done")
    shown = new.client.get(f"/v1/jobs/{ended}").json()
    assert shown["best_cycles"] == best
    until(lambda: lab.job(left) != ("queued", "waits: its conductor was shut down"))
    if same_tools(lab, left, later):
        lab.goes_on(left)
        lab.check_whole(left, kept)
        return
    until(lambda: "its cycles could not be compared" in lab.job(left)[1])
    state, note = lab.job(left)
    assert state == "queued"
    assert note.startswith(f"job {left} began with ")
    assert "\n" not in note
    assert [row for row in lab.rows() if row[0] == left] == [r for r in kept if r[0] == left]


def same_tools(lab: Lab, one: str, other: str) -> bool:
    """Whether two jobs had the same kernel, compilers, simulator and space, whatever their
    release."""
    found = []
    for job in (one, other):
        [(tools, *others)] = lab.rows(
            text(
                "SELECT t.fingerprint, j.space_digest, j.problem_id FROM jobs j"
                " JOIN toolchains t ON t.id = j.toolchain_id WHERE j.id = :id"
            ).bindparams(id=job)
        )
        parts = dict(json.loads(tools) if isinstance(tools, str) else tools)
        found.append(({k: v for k, v in parts.items() if k != "hvxtune"}, others))
    return found[0] == found[1]
