"""Trials, schedules, comparisons and the farm."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dashboards.explaining import Explanations
from dashboards.templating import ABSENT
from db import open_store
from db.exchange import export_schedules, import_schedules
from db.schedules.queries import find
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_job_pages import finished_job
from tests.service.stored import problem, store_schedule
from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    config,
    measurement,
    ok,
    pending,
    schedule,
    spec,
)
from tuner.errors import CandidateError
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome

LogIn = Callable[..., Browser]


def stored(
    store: SqlStore,
    cycles: int = 1000,
    m: int = 256,
    n: int = 64,
    seed: int = 0,
    target: str = "hexagon-v66",
) -> str:
    """A schedule of gemm_u8; its id."""
    problem = find_kernel("gemm_u8").problem(
        {"m": m, "n": n, "k": 32}, Contract.STATIC, find_target(target)
    )
    job = store.create_job(spec(problem=problem), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    made = artifact(seed)
    trial = ok(0, made, cycles)
    store.commit(job.id, token, started=[pending(0)])
    store.commit(
        job.id,
        token,
        finished=[trial],
        artifacts=[made],
        schedule=schedule(job.id, trial, of=problem),
    )
    return f"{job.id}-0"


def words(text: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_a_trial_shows_where_its_config_differs(logged_in: LogIn, store: SqlStore) -> None:
    job = finished_job(store)
    page = logged_in(Scope.READ).get(f"/ui/jobs/{job}/trials/1").text
    rows = re.findall(r'<th scope="row" class="mono">(\w+)</th>(.*?)</tr>', page, re.DOTALL)
    differing = {knob: cells.count("differs") for knob, cells in rows}
    this, others = config(1), (config(0), config(2))  # the default and the best
    assert {knob: differing[knob] for knob in this} == {
        knob: sum(other.get(knob) != value for other in others) for knob, value in this.items()
    }
    assert "2,000" in words(page)


def test_a_trial_on_a_phone_shows_its_noise_and_a_dash_for_what_is_not_counted(
    logged_in: LogIn, store: SqlStore
) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    made = artifact(0)
    on_phone = ok(0, made, measurement=measurement(1000, "hardware"))
    store.commit(job.id, token, finished=[on_phone], artifacts=[made])
    text = words(logged_in(Scope.READ).get(f"/ui/jobs/{job.id}/trials/0").text)
    assert f"packets {ABSENT} " in text
    assert f"stall cycles {ABSENT} " in text
    assert "spread 0.1 %" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "Temperature 41.5 °C" in text


def test_a_failed_trial_shows_its_error(logged_in: LogIn, store: SqlStore) -> None:
    page = logged_in(Scope.READ).get(f"/ui/jobs/{finished_job(store)}/trials/3").text
    assert "Error: vector lanes" in page
    assert "Cycles by cause" not in page


@pytest.mark.parametrize("place", ["trials/99", "trials/1/files/secret", "trials/3/files/object"])
def test_what_is_not_there_is_not_found(logged_in: LogIn, store: SqlStore, place: str) -> None:
    job = finished_job(store)
    assert logged_in(Scope.READ).get(f"/ui/jobs/{job}/{place}").status_code == 404


def wait_for(kept: Explanations, make: Callable[[], object]) -> object:
    while True:
        found = kept.ask("x", make)
        if found is not None:
            return found


def test_explaining_is_waited_for_and_done_once() -> None:
    kept, calls = Explanations(), []

    def make():
        calls.append(1)
        return "why"

    assert wait_for(kept, make) == "why"
    assert wait_for(kept, make) == "why"
    assert len(calls) == 1


def test_an_explanation_that_fails_says_so_and_can_be_asked_again() -> None:
    kept, calls = Explanations(), []

    def fail():
        calls.append(1)
        raise CandidateError(Outcome.TIMEOUT, "too slow")

    for _ in range(2):
        with pytest.raises(CandidateError, match="too slow"):
            wait_for(kept, fail)
    assert len(calls) == 2


def test_schedules_are_listed_and_lead_to_their_trials(logged_in: LogIn, store: SqlStore) -> None:
    public_id, other = stored(store), stored(store, n=128, seed=1)
    browser = logged_in(Scope.READ)
    page = browser.get("/ui/schedules?kernel=gemm_u8&fidelity=model&contract=static").text
    assert "m=256 n=64 k=32" in page
    assert "Keep from builds" not in page
    assert re.findall(r"<option[^>]*>([^<]*u8[^<]*)</option>", page) == ["gemm_u8"], (
        "what is stored"
    )

    def shown(query: str) -> set[str]:
        text = browser.get(f"/ui/schedules?{query}").text
        return {one for one in (public_id, other) if one in text}

    assert shown("target=hexagon-v68") == set()
    assert shown("q=GEMM+static") == shown("q=v66") == {public_id, other}
    assert shown("q=gemm+n%3D64") == shown(f"q={public_id}") == {public_id}
    assert shown("q=n%3D6") == shown("q=sobel") == shown("q=100%25_%00") == set()
    job = public_id.rpartition("-")[0]
    assert browser.get(f"/ui/schedules/{public_id}").url.path == f"/ui/jobs/{job}/trials/0"
    assert browser.get("/ui/schedules/1rt-9").status_code == 404
    assert browser.get("/ui/schedules?fidelity=guess").status_code == 422


def test_an_operator_keeps_a_schedule_from_builds(logged_in: LogIn, store: SqlStore) -> None:
    public_id = stored(store)
    assert (
        logged_in(Scope.READ, Scope.SUBMIT)
        .form("/ui/jobs", f"/ui/schedules/{public_id}/quarantine", reason="x")
        .status_code
        == 403
    )
    operator = logged_in(Scope.READ, Scope.OPERATE)
    place = f"/ui/schedules/{public_id}"
    page = operator.form("/ui/schedules", f"{place}/quarantine", reason="wrong <b>rows</b>").text
    assert "wrong &lt;b&gt;rows" in page
    found = find(store, public_id)
    assert found is not None
    assert found.quarantined_at is not None
    operator.form("/ui/schedules", f"{place}/release")
    found = find(store, public_id)
    assert found is not None
    assert found.quarantined_at is None


def test_jobs_are_compared(logged_in: LogIn, store: SqlStore) -> None:
    own = finished_job(store)
    other, elsewhere = (
        stored(store, cycles, seed=cycles).rpartition("-")[0] for cycles in (900, 1200)
    )
    browser = logged_in(Scope.READ)
    page = words(browser.get(f"/ui/compare?own={own}&other={other}").text)
    assert "1.111\N{MULTIPLICATION SIGN} of the cycles: slower" in page
    assert "two simulations" in page
    knobs = {
        k: (config(2).get(k, ABSENT), config(0).get(k, ABSENT)) for k in (*config(0), *config(2))
    }
    for knob, (mine, theirs) in knobs.items():
        assert f"{knob} {mine} {theirs}" in page
    assert f"this: {own} gemm_u8 m=256 n=64 k=32 1,000 2,000 4" in page
    assert browser.get(f"/ui/compare?own={own}&other=1rtx").status_code == 404
    # The newest other job of the workload, if one job alone is given.
    alone = browser.get(f"/ui/compare?own={other}").text
    assert re.search(rf'value="{elsewhere}" selected', alone)
    assert alone.index('label="the same workload"') < alone.index(f'value="{elsewhere}"')


def test_jobs_and_contracts_are_compared(logged_in: LogIn, store: SqlStore) -> None:
    """What a contract costs: the same workload under two of them, one row, with a ratio."""
    browser = logged_in(Scope.READ)
    jobs = []
    for contract, cycles in (("static", 900), ("none", 1350)):
        of = problem(contract=contract, m=128, n=128, k=128)
        jobs.append(store_schedule(store, of, cycles).rpartition("-")[0])
    choices = words(browser.get("/ui/compare").text)
    for contract, cycles, job in zip(("static", "none"), ("900", "1,350"), jobs, strict=True):
        label = f"{job} · {cycles} cycles · gemm_u8 m=128 n=128 k=128 · {contract} · hexagon-v66"
        assert label in choices
    for query in (f"own={jobs[1]}&other={jobs[0]}", "kind=contracts&own=none&other=static"):
        page = words(browser.get(f"/ui/compare?{query}").text)
        assert "1,350 900 1.50" in page
        assert "none against static · hexagon-v66" in page
        assert "only on one side" not in page
    assert browser.get("/ui/compare?kind=contracts&own=some&other=none").status_code == 422


def test_an_imported_schedule_shows_where_it_comes_from(
    logged_in: LogIn, store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "elsewhere"))
    with closing(open_store(f"sqlite:///{tmp_path / 'elsewhere.sqlite'}")) as elsewhere:
        public_id = store_schedule(elsewhere, problem(m=64, n=128, k=128), 1234)
        export_schedules(elsewhere, tmp_path / "some.zip")
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    import_schedules(store, tmp_path / "some.zip", installed=[TOOLCHAIN])
    page = words(logged_in(Scope.READ).get(f"/ui/schedules/{public_id}").text)
    assert "imported: its job is in another database" in page
    assert "measured there 1,234 cycles" in page
    assert "simulator qemu 7.2" in page
