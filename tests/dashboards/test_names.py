"""Pages call an upload what people call it."""

from __future__ import annotations

from collections.abc import Callable

from db import pipelines
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.service.stored import problem, store_schedule
from tuner.records.trial import Submission

LogIn = Callable[..., Browser]


def test_every_page_shows_the_name_that_was_given(logged_in: LogIn, store: SqlStore) -> None:
    submission = Submission("ada", kernel_label="crisp")
    schedules = [
        store_schedule(store, problem(m=64, n=128, k=size), 700, submission=submission)
        for size in (128, 256)
    ]
    jobs = [schedule.rpartition("-")[0] for schedule in schedules]
    browser = logged_in(Scope.READ, Scope.SUBMIT, name="ada")
    for page in (
        "/ui/jobs",
        f"/ui/jobs/{jobs[0]}",
        f"/ui/jobs/{jobs[0]}/analysis",
        f"/ui/jobs/{jobs[0]}/trials/0",
        "/ui/schedules",
        f"/ui/compare?kind=jobs&own={jobs[0]}&other={jobs[1]}",
        "/ui/compare?kind=targets&own=hexagon-v66&other=hexagon-v66",
    ):
        text = browser.get(page).text
        main = text[text.index("<main") :]
        assert "crisp" in main, page
    named = browser.get(f"/ui/jobs/{jobs[0]}/trials/0/files/object").headers["Content-Disposition"]
    assert named == 'attachment; filename="crisp_m64_n128_k128_static.o"'


def test_the_form_offers_uploads_by_name(logged_in: LogIn, store: SqlStore) -> None:
    nothing = {"stages": [], "inputs": [], "outputs": []}
    for name, owner, data in (
        ("crisp", "ada", b"1"),
        ("crisp", "ada", b"2"),
        ("blur", "bob", b"3"),
        ("soft", "ada", b"4"),
    ):
        pipelines.keep(store, data, name, owner, nothing)
    pipelines.keep(store, b"5", "hidden", "bob", nothing, private=True)
    text = logged_in(Scope.READ, Scope.SUBMIT, name="ada").get("/ui/submit").text
    assert "bob/blur</option>" in text
    assert ">soft</option>" in text
    assert text.count(">crisp (") == 2, "versions are told apart by their digits"
    assert "hidden</option>" not in text


def test_a_private_job_says_so(logged_in: LogIn, store: SqlStore) -> None:
    private = Submission("ada", private=True)
    schedule = store_schedule(store, problem(), 700, submission=private)
    job = schedule.rpartition("-")[0]
    page = f"/ui/jobs/{job}"
    assert "private to ada" in logged_in(Scope.READ, name="ada").get(page).text
    assert logged_in(Scope.READ, name="bob").get(page).status_code == 404
