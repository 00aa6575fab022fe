"""Jobs as pages: lists, one job, the form."""

from __future__ import annotations

import csv
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from db.access.audit import newest_entries
from db.jobs.annotations import annotate
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.service.stored import store_doubted
from tuner.codegen import starts_of
from tuner.conformance.records import (
    SPACE,
    TOOLCHAIN,
    artifact,
    failed,
    measurement,
    ok,
    pending,
    spec,
)
from tuner.conformance.stores import new_job
from tuner.jobs.choices import choices_of
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.records.batch import BatchPlan
from tuner.records.outcome import Outcome
from tuner.records.request import JobOptions, options_of
from tuner.records.trial import Budget, JobState, Promotion, Submission, Trial
from tuner.workload_sets import find_set

TIMES = "\N{MULTIPLICATION SIGN}"
LogIn = Callable[..., Browser]


def finished_job(store: SqlStore, user: str = "ada", error: str = "") -> str:
    """Default 3000 cycles, textbook 2000, best 1000, one that did not compile."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission(user))
    token = store.claim(job.id)
    made = [artifact(i) for i in range(3)]
    trials = [
        ok(0, made[0], 3000, origin="default"),
        ok(1, made[1], 2000, origin="textbook"),
        ok(2, made[2], 1000),
        failed(3) if not error else _with_error(3, error),
    ]
    store.commit(job.id, token, started=[pending(n) for n in range(4)])
    store.commit(job.id, token, finished=trials, artifacts=made, spent_s=8.0)
    store.release(job.id, token, JobState.DONE)
    return job.id


def test_a_job_whose_best_hangs_on_one_cost_says_so(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.READ)
    job = store_doubted(store)
    page = browser.get(f"/ui/jobs/{job}").text
    told = (
        "Not sure : the fastest at 31 % of the plausible costs, within 2 % of the fastest at 38 %; "
        "trial 1 is up to 16 % faster if l2_access is above 0.2 model cycles (0 assumed)."
    )
    assert told in words(page)
    assert f'href="/ui/jobs/{job}/trials/1">trial 1</a> is up to' in page
    for quiet in (store_doubted(store, end=None), store_doubted(store, counts=(None, None))):
        assert "plausible costs" not in browser.get(f"/ui/jobs/{quiet}").text


def words(text: str) -> str:
    return re.sub(r"[ \n]+", " ", re.sub(r"<[^>]*>", " ", html.unescape(text)))


def _with_error(number: int, error: str) -> Trial:
    return replace(failed(number), error=error)


def test_a_robust_choice_is_the_best_on_every_page(logged_in: LogIn, store: SqlStore) -> None:
    job = store_doubted(store, prefer="robust")
    browser = logged_in(Scope.READ)
    shown = words(browser.get(f"/ui/jobs/{job}").text)
    assert "best 1,000 (to 1,200)" in shown, "0.65 an access to L2 at most"
    assert "at the assumed costs it takes 11.1 % more cycles than the fastest" in shown
    assert "robust" in shown
    assert "the best of its job" in browser.get(f"/ui/jobs/{job}/trials/1").text
    assert "the best of its job" not in browser.get(f"/ui/jobs/{job}/trials/0").text


def test_long_lists_come_in_pages(
    logged_in: LogIn, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.pages.jobs.PAGE", 2)
    jobs = [store.create_job(spec(), SPACE, TOOLCHAIN).id for _ in range(5)]
    browser = logged_in(Scope.READ)
    place, seen = "/ui/jobs", []
    for _ in range(3):
        page = browser.get(place).text
        seen.append([job for job in jobs if f"/ui/jobs/{job}" in page])
        older = re.search(r'href="([^"]*after=[^"]*)"', page)
        place = html.unescape(older.group(1)) if older else ""
    assert [len(some) for some in seen] == [2, 2, 1]
    assert sorted(job for some in seen for job in some) == sorted(jobs)
    assert place == ""


def test_a_job_page_hands_out_its_best(logged_in: LogIn, store: SqlStore) -> None:
    job = finished_job(store)
    browser = logged_in(Scope.READ)
    page = browser.get(f"/ui/jobs/{job}").text
    files = [place for place in re.findall(r'href="([^"]*)" download', page) if "/files/" in place]
    assert browser.get(files[0]).content == artifact(2).object_bytes
    assert f'href="/ui/compare?own={job}"' in page
    shown = html.unescape(page)
    assert (
        "hvxtune best gemm_u8 -p n=64 -p k=32 \\\n"
        "  --target hexagon-v68-sm8350 --contract static \\\n"
        "  --server http://testserver \\\n"
    ) in shown
    assert "KERNEL gemm_u8 PARAMS n=64 k=32\n" in shown
    queued = store.create_job(spec(), SPACE, TOOLCHAIN).id
    assert "Use the best" not in browser.get(f"/ui/jobs/{queued}").text


def test_a_job_page_has_the_course_and_its_lines(logged_in: LogIn, store: SqlStore) -> None:
    page = logged_in(Scope.READ).get(f"/ui/jobs/{finished_job(store)}").text
    data = json.loads(re.search(r'id="course-data">(.*?)</script>', page, re.DOTALL).group(1))
    assert data["cycles"] == [3000, 2000, 1000]
    assert data["best"] == [3000, 2000, 1000]
    assert data["lines"]["default"] == 3000
    assert data["lines"]["textbook"] == 2000
    assert data["lines"]["roofline"] > 0


def test_trials_can_be_had_by_outcome_and_order(logged_in: LogIn, store: SqlStore) -> None:
    job = finished_job(store)
    browser = logged_in(Scope.READ)

    def numbers(query: str) -> list[int]:
        text = browser.get(f"/ui/jobs/{job}/trials?{query}").text
        return [int(n) for n in re.findall(rf"/ui/jobs/{job}/trials/(\d+)", text)]

    assert numbers("") == [2, 1, 0, 3]
    assert numbers("order=number") == [3, 2, 1, 0]
    assert numbers("outcome=compile_error") == [3]
    assert "vector lanes" in browser.get(f"/ui/jobs/{job}/trials?outcome=compile_error").text
    assert browser.get(f"/ui/jobs/{job}/trials?outcome=nice").status_code == 422


def test_what_users_send_is_escaped(logged_in: LogIn, store: SqlStore) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    job = finished_job(store, user=evil, error=evil)
    browser = logged_in(Scope.READ)
    for place in ("/ui/jobs", f"/ui/jobs/{job}", "/ui/jobs?user=" + evil, f"/ui/jobs/{evil}"):
        text = browser.get(place).text
        assert "<script>alert" not in text
        assert "<img src=x" not in text


def test_only_changes_are_sent_while_a_job_runs(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    browser = logged_in(Scope.READ)
    page = browser.get(f"/ui/jobs/{job.id}").text
    again = html.unescape(re.search(r'hx-get="([^"]*live[^"]*)"', page).group(1))
    assert browser.get(again).status_code == 204
    store.commit(job.id, token, started=[pending(0)])
    store.commit(job.id, token, finished=[failed(0, Outcome.TIMEOUT)])
    changed = browser.get(again)
    assert changed.status_code == 200
    assert "timeout" in changed.text
    assert "every 2s" in changed.text


def test_a_job_that_ended_does_not_ask_for_changes(logged_in: LogIn, store: SqlStore) -> None:
    assert "every 2s" not in logged_in(Scope.READ).get(f"/ui/jobs/{finished_job(store)}").text


def test_an_unknown_job_is_not_found(logged_in: LogIn) -> None:
    answer = logged_in(Scope.READ).get("/ui/jobs/1rt00000")
    assert answer.status_code == 404
    assert "no job &#39;1rt00000&#39;" in answer.text


def test_a_job_is_paused_resumed_and_cancelled(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada"))
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    place = f"/ui/jobs/{job.id}"
    assert ">paused<" in browser.form(place, f"{place}/pause").text
    assert ">queued<" in browser.form(place, f"{place}/resume").text
    assert ">cancelled<" in browser.form(place, f"{place}/cancel").text
    assert store.job(job.id).state is JobState.CANCELLED
    assert browser.form("/ui/jobs", f"{place}/pause").status_code == 422
    assert browser.form("/ui/jobs", f"{place}/explode").status_code == 404


def test_the_form_is_made_of_the_kernels_parameters(logged_in: LogIn) -> None:
    page = logged_in(Scope.ADMIN).get("/ui/submit?kernel=gemm_u8&contract=none&param_m=64").text
    assert re.search(r'name="param_m"[^>]*value="64"', page)
    assert re.search(r'name="param_k"', page)
    assert "<option selected>none</option>" in page
    assert "knobs" in page
    other = logged_in(Scope.ADMIN).get("/ui/submit?kernel=sobel_u8").text
    assert 'name="param_width"' in other
    assert 'name="param_k"' not in other
    layer = logged_in(Scope.ADMIN).get("/ui/submit?kernel=blocked:qconv2d_u8").text
    assert re.search(r"<option[^>]* selected>blocked:qconv2d_u8</option>", layer), "of a network"


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("param_m", "many", "a whole number"),
        ("trials", "-5", "trials=-5"),
        ("until_gain", "most", "a percentage"),
        ("sampler", "magic", "unknown sampler"),
        ("kernel", "gem_u8", "gemm_u8"),
    ],
)
def test_what_is_wrong_in_the_form_is_said_and_nothing_is_lost(
    logged_in: LogIn, store: SqlStore, field: str, value: str, said: str
) -> None:
    sent = {"kernel": "gemm_u8", "param_n": "512", field: value}
    answer = logged_in(Scope.ADMIN).form("/ui/submit", "/ui/submit", **sent)
    assert answer.status_code == 422
    assert said in html.unescape(answer.text)
    assert store.jobs() == []
    if field != "kernel":
        assert re.search(r'name="param_n"[^>]*value="512"', answer.text)
    if field.startswith("param"):
        assert re.search(rf'name="{field}"[^>]*aria-invalid="true"', answer.text)


def test_the_space_is_shown_while_the_form_is_filled_in(logged_in: LogIn) -> None:
    browser = logged_in(Scope.ADMIN)
    assert "tile_m" in browser.get("/ui/submit/space?kernel=gemm_u8").text
    wrong = browser.get("/ui/submit/space?kernel=gemm_u8&param_n=100&contract=extent")
    assert "multiples of" in wrong.text


def test_a_submitted_job_is_that_of_the_form(
    logged_in: LogIn, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.executor.executor.find_generator", lambda _: StandInGenerator)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda _: StandInMeasurer)
    sent = {"kernel": "gemm_u8", "param_m": "64", "contract": "stride", "cache": "cold"}
    limits = {"trials": "7", "seconds": "2.5", "patience": "", "seed": "3", "priority": "5"}
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    gemm = find_kernel("gemm_u8")
    of = gemm.problem({"m": 64}, Contract.STRIDE, find_target(DEFAULT_TARGET))
    own = starts_of(None, gemm, of)["textbook"].json
    answer = browser.form(
        *("/ui/submit", "/ui/submit", {"baseline_file": ("own.json", own.encode())}),
        **{**sent, **limits, "workers": "2"},
    )
    job = store.jobs()[0]
    assert job.spec.baseline == own
    again = html.unescape(re.search(r'href="(/ui/submit\?[^"]*)"', answer.text).group(1))
    form = browser.get(again).text
    assert f'<option value="{html.escape(own)}" selected>'.replace("&quot;", "&#34;") in form
    assert re.search(r"<details open>\s*<summary>More", form), "something in it is set"
    assert re.search(r"<details>\s*<summary>More", browser.get("/ui/submit").text)
    assert answer.url.path == f"/ui/jobs/{job.id}"
    assert job.spec.problem.workload.params["m"] == 64
    assert (job.spec.problem.contract, job.spec.cache) == ("stride", "cold")
    assert job.spec.budget == Budget(7, 2.5, None)
    assert (job.spec.objectives, job.spec.sampler) == (("cycles",), "surrogate")
    assert (job.spec.seed, job.spec.workers) == (3, 2)
    assert (job.submission.user, job.submission.priority) == ("ada", 5)
    assert newest_entries(store, limit=1)[0].action == "job.submit"


def test_the_form_has_every_option(
    logged_in: LogIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "farm.toml"
    file.write_text('[[phone]]\nname = "p1"\nserial = "x"\narch = "v66"\n')
    monkeypatch.setenv("HVXTUNE_FARM_FILE", str(file))
    page = logged_in(Scope.ADMIN).get("/ui/submit").text
    names = set(re.findall(r'name="(\w+)"', page))
    for option in options_of(JobOptions):
        if option.kind == "names":
            assert {f"{option.name}_{n}" for n in choices_of(option)[1:]} <= names
        else:
            assert option.name in names


def test_a_set_becomes_a_job_for_each_workload(
    logged_in: LogIn, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuner.executor.executor.find_generator", lambda _: StandInGenerator)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda _: StandInMeasurer)
    monkeypatch.setattr("tuner.jobs.tuning.space_of", lambda *_: SPACE)
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    page = browser.get("/ui/submit?kernel=set:camera_1080p").text
    assert '<option value="set:camera_1080p" selected>' in page
    assert 'name="param_' not in page
    members = find_set("camera_1080p").members
    assert f"{len(members)} different workloads" in words(page)
    trials = str(5 * len(members))
    answer = browser.form("/ui/submit", "/ui/submit", kernel="set:camera_1080p", trials=trials)
    jobs = store.jobs()
    assert {job.spec.problem.workload for job in jobs} == {one.workload for one in members}
    assert {job.spec.trials for job in jobs} == {5}
    (batch,) = {job.submission.batch for job in jobs}
    assert answer.url.path == f"/ui/networks/{batch}"
    assert answer.text.count("<tr") >= len(members)
    assert store.batch(batch).name == "camera_1080p"
    assert browser.get(f"/ui/jobs?batch={batch}").text.count("<tr") >= len(members)
    assert browser.get("/ui/submit?kernel=set:/etc/x.toml").status_code == 422


def test_devices_are_offered_where_there_is_a_farm(
    logged_in: LogIn, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "farm.toml"
    monkeypatch.setenv("HVXTUNE_FARM_FILE", str(file))
    browser = logged_in(Scope.ADMIN)
    assert 'name="on"' not in browser.get("/ui/submit").text
    file.write_text("this is not TOML")
    assert 'name="on"' not in browser.get("/ui/submit").text
    simulator = '[[simulator]]\nname = "sim"\nslots = 2\ntags = ["lab"]\n'
    file.write_text(simulator)
    page = browser.get("/ui/submit?on=lab").text
    assert re.search(r'name="on">.*?<option selected>lab</option>', page, re.DOTALL)
    assert 'name="promote_to"' not in page, "nothing there is of a higher fidelity"
    file.write_text(simulator + '[[phone]]\nname = "p1"\nserial = "x"\narch = "v66"\n')
    page = browser.get("/ui/submit").text
    offered = re.search(r'name="promote_to">(.*?)</select>', page, re.DOTALL).group(1)
    assert "<option>p1</option>" in offered
    assert "<option>phone</option>" in offered
    assert "lab" not in offered
    assert "v66" not in offered, "simulators have that, too"


def test_a_job_page_shows_promotions_beside_their_trials(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(promote_to="phone", promote=4), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    made = [artifact(i) for i in range(4)]
    trials = [ok(n, made[n], 1000 + 100 * n) for n in range(4)]
    store.commit(job.id, token, finished=trials, artifacts=made)
    browser = logged_in(Scope.READ)
    before = browser.get(f"/ui/jobs/{job.id}").text
    assert "None yet" in before
    ended = [
        Promotion(
            n,
            TOOLCHAIN,
            Outcome.OK,
            replace(measurement(9000 - 100 * n, "hardware"), samples=tuple(range(8000, 9000, 100))),
            finished_at=2.0,
        )
        for n in range(2)
    ]
    failed_there = Promotion(2, TOOLCHAIN, Outcome.TIMEOUT, error="it hangs", finished_at=2.0)
    store.commit(
        job.id, token, promotions=[*ended, failed_there, Promotion(3, TOOLCHAIN, started_at=1.0)]
    )
    seen = re.search(r"live\?seen=([^\"]+)", before).group(1)
    live = browser.get(f"/ui/jobs/{job.id}/live?seen={html.unescape(seen)}")
    assert live.status_code == 200, "promotions alone are news"
    page = words(live.text)
    assert "Promoted to phone 3 of 4" in page
    assert "1 ok 1,100 2 8,900" in page
    assert "0 ok 1,000 1 9,000" in page
    assert "2 timeout it hangs 1,200 \N{EN DASH}" in page
    assert "3 under way 1,300 \N{EN DASH}" in page
    assert "rank correlation -1.00" in page
    assert live.text.count('class="mark-best"') == 2


def test_a_job_with_several_goals_shows_its_front(logged_in: LogIn, store: SqlStore) -> None:
    job = store.create_job(spec(objectives=("cycles", "code_bytes")), SPACE, TOOLCHAIN)
    token = store.claim(job.id)
    sizes = {0: 640, 1: 320, 2: 700, 3: 10}
    made = [artifact(i) for i in sizes]
    trials = [
        ok(n, made[n], measurement=replace(measurement(1000 + n), code_bytes=size))
        for n, size in sizes.items()
    ]
    store.commit(job.id, token, finished=trials, artifacts=made)
    browser = logged_in(Scope.READ)
    page = words(browser.get(f"/ui/jobs/{job.id}").text)
    assert "Trial cycles code_bytes 0 1,000 640 1 1,001 320 3 1,003 10" in page
    drawn = browser.get(f"/ui/jobs/{job.id}/analysis/figures").text
    plots = json.loads(re.search(r'id="plots">(.*?)</script>', drawn).group(1))
    assert [dot[2] for dot in plots["code"]["goals"]] == [0, 1, 3]


def test_a_search_finds_jobs_by_what_people_call_them(logged_in: LogIn, store: SqlStore) -> None:
    labelled = replace(Submission("bob"), kernel_label="Edge detector")
    edges = store.create_job(spec(), SPACE, TOOLCHAIN, labelled).id
    plan = BatchPlan(name="mobile_net")
    public = replace(new_job("0"), submission=Submission("bob"))
    member = store.create_batch(plan, [public]).members[0].job
    alone = finished_job(store)
    browser = logged_in(Scope.READ)

    def found(text: str) -> set[str]:
        page = browser.get("/ui/jobs", params={"q": text, "batch": ""}).text
        shown = {job for job in (edges, alone) if f"/ui/jobs/{job}" in page}
        return shown | ({member} if "mobile_net</a>" in page else set())

    assert found("") == {edges, alone, member}
    assert found("edge DETECT") == {edges}
    assert found("mobile_") == {member}
    assert found(alone) == {alone}
    assert found("bob gemm") == {edges, member}
    assert found("100%_\0") == set()
    assert 'value="edge"' in browser.get("/ui/jobs?q=edge").text
    assert browser.get("/ui/jobs?q=" + 201 * "x").status_code == 422


def test_trials_can_be_downloaded(logged_in: LogIn, store: SqlStore) -> None:
    job = finished_job(store)
    store.create_job(spec(), SPACE, TOOLCHAIN, Submission("bob"))
    browser = logged_in(Scope.READ)
    place = f"/ui/jobs/{job}/trials"
    assert f'href="{place}.csv?outcome=' in browser.get(f"/ui/jobs/{job}").text
    answer = browser.get(f"{place}.csv?outcome=ok")
    assert answer.headers["content-disposition"].endswith(f'"{job}-trials.csv"')
    trials = list(csv.DictReader(answer.text.splitlines()))
    assert [(row["trial"], row["cycles"]) for row in trials] == [
        ("0", "3000"),
        ("1", "2000"),
        ("2", "1000"),
    ]


def test_a_job_is_submitted_again_with_its_options(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    asked = {"kernel": "gemm_u8", "param_m": "64", "trials": "7", "seed": "3"}
    first = browser.form("/ui/submit", "/ui/submit", **asked, sampler="random", until_gain="2.5")
    job = first.url.path.rpartition("/")[2]
    again = html.unescape(re.search(r'href="(/ui/submit\?[^"]*)"', first.text).group(1))
    page = browser.get(again).text
    fields = dict(re.findall(r'<input id="(\w+)"[^>]* value="([^"]*)"', page))
    chosen = re.findall(r"<option selected>(\w+)", page)
    assert (fields["param_m"], fields["trials"], fields["seed"]) == ("64", "7", "3")
    assert fields["until_gain"] == "2.5"
    assert "random" in chosen
    second = browser.form("/ui/submit", "/ui/submit", **dict(parse_qsl(again.partition("?")[2])))
    assert second.url.path != "/ui/submit", words(second.text)
    copy = second.url.path.rpartition("/")[2]
    assert copy != job
    assert store.job(copy).spec == store.job(job).spec


def test_ticked_jobs_and_networks_are_cancelled_together(logged_in: LogIn, store: SqlStore) -> None:
    mine = [store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada")).id for _ in range(3)]
    members = [replace(new_job(str(n)), submission=Submission("bob")) for n in range(2)]
    net = store.create_batch(BatchPlan(name="net"), members)
    ended = finished_job(store)
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    assert browser.get("/ui/jobs").text.count('name="ticked"') == 4
    assert 'name="ticked"' not in logged_in(Scope.READ, name="eve").get("/ui/jobs").text
    theirs = browser.form("/ui/jobs", "/ui/jobs/cancel", ticked=f"network:{net.id}")
    assert theirs.status_code == 403
    fields = {"ticked": [*mine[:2], ended], "query": "user=ada&next=elsewhere"}
    answer = browser.form("/ui/jobs", "/ui/jobs/cancel", **fields)
    assert answer.url.query == b"user=ada"
    states = [store.job(job).state for job in (*mine, ended)]
    assert states == [JobState.CANCELLED, JobState.CANCELLED, JobState.QUEUED, JobState.DONE]
    operator = logged_in(Scope.READ, Scope.OPERATE, name="olga")
    operator.form("/ui/jobs", "/ui/jobs/cancel", ticked=f"network:{net.id}")
    assert {store.job(one.job).state for one in net.members} == {JobState.CANCELLED}


def test_a_job_has_a_comment_and_tags_that_its_owner_changes(
    logged_in: LogIn, store: SqlStore
) -> None:
    job = finished_job(store)
    page, form = f"/ui/jobs/{job}", f"/ui/jobs/{job}/annotation"
    ada = logged_in(Scope.READ, Scope.SUBMIT)
    before = {"comment_before": "", "tags_before": ""}
    written = ada.form(page, form, comment="faster\r\n<b>now</b>", tags="Camera, v2 v2", **before)
    assert '<p class="lines">faster\n&lt;b&gt;now&lt;/b&gt;</p>' in written.text
    assert re.findall(r'href="/ui/jobs\?tag=(\w+)"', written.text) == ["camera", "v2"]
    # Somebody whose page is older changes the tags alone: nothing else is lost.
    operator = logged_in(Scope.READ, Scope.OPERATE, name="olga")
    operator.form(page, form, comment="", tags="v3", comment_before="", tags_before="v2")
    told = store.summary(job).annotation
    assert (told.comment, told.tags) == ("faster\n<b>now</b>", ("camera", "v3"))
    assert [one.action for one in newest_entries(store, 9)].count("job.annotate") == 2
    stranger = logged_in(Scope.READ, Scope.SUBMIT, name="eve")
    assert "Edit comment" not in stranger.get(page).text
    assert stranger.form(page, form, comment="mine", tags="", **before).status_code == 403
    wrong = ada.form(page, form, comment="", tags="Größe", **before)
    assert (wrong.status_code, "of a-z, 0-9" in html.unescape(wrong.text)) == (422, True)
    assert store.summary(job).annotation == told


def test_the_list_is_filtered_by_tag_pin_and_upload(logged_in: LogIn, store: SqlStore) -> None:
    edges = replace(Submission("ada"), kernel_label="Edge detector")
    jobs = [store.create_job(spec(), SPACE, TOOLCHAIN, edges).id, finished_job(store)]
    annotate(store, jobs[0], comment="for the demo", add_tags=["camera"])
    ada = logged_in(Scope.READ)

    def shown(query: str) -> list[str]:
        page = ada.get(f"/ui/jobs?{query}").text
        return [job for job in jobs if f'"/ui/jobs/{job}"' in page]

    assert shown("tag=camera") == shown("q=demo") == shown("q=camera") == [jobs[0]]
    assert shown("kernel=Edge+detector") == [jobs[0]]
    chosen = "<option selected>Edge detector</option>"
    assert chosen in ada.get("/ui/jobs?kernel=Edge+detector&state=done").text
    assert chosen.replace(" selected", "") in ada.get("/ui/jobs").text
    assert shown("kernel=gemm_u8") == jobs
