"""Networks and sets as pages: one row of the list, the page by layer, cancel."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_job_pages import TIMES, finished_job, words
from tests.service.cli.test_batches import stored
from tuner.conformance.stores import NETWORK, new_job
from tuner.records.trial import JobRequest, JobState

LogIn = Callable[..., Browser]


def test_the_list_has_a_set_as_one_row(logged_in: LogIn, store: SqlStore) -> None:
    alone = finished_job(store)
    batch = stored(store)
    browser = logged_in(Scope.READ)
    page = browser.get("/ui/jobs").text
    assert page.count("<tr>") == 1 + 2
    assert alone in page
    assert f"/ui/networks/{batch.id}" in page
    assert batch.members[0].job not in page
    for word in ("net set", "2 jobs", "4 trials", "2 of 2 jobs ended", "1,900", f"2.26{TIMES}"):
        assert word in words(page)
    members = browser.get(f"/ui/jobs?batch={batch.id}").text
    assert all(f"/ui/jobs/{member.job}" in members for member in batch.members)


def test_the_page_has_totals_layers_and_what_to_do_next(logged_in: LogIn, store: SqlStore) -> None:
    batch = stored(store, kind="network", tuned=((20_000, 8000),))
    page = logged_in(Scope.READ, Scope.SUBMIT).get(f"/ui/networks/{batch.id}").text
    shown = words(page)
    for word in (
        "8,000 cycles",
        f"2.50{TIMES} of 20,000",
        "conv · 100.0\N{NO-BREAK SPACE}% of MACs",
        "1 step apart",
        "LayerNorm · no integer form",
        "Next: a could save up to",
    ):
        assert word in shown, word
    assert f'href="/ui/jobs/{batch.members[0].job}"' in page
    assert "hx-get" not in page
    job = logged_in(Scope.READ).get(f"/ui/jobs/{batch.members[0].job}").text
    assert f"/ui/networks/{batch.id}" in job


def test_what_to_do_next_leads_to_the_filled_form(logged_in: LogIn, store: SqlStore) -> None:
    batch = stored(store, tuned=((20_000, 8000), (20_000, 8000)))
    browser = logged_in(Scope.READ, Scope.SUBMIT)
    page = browser.get(f"/ui/networks/{batch.id}").text
    assert "Next: a (2 calls) could save up to" in words(page)
    link = re.search(r'href="(/ui/submit[^"]+)"', page).group(1).replace("&amp;", "&")
    form = browser.get(link).text
    for name, value in (("m", 256), ("n", 64), ("k", 32)):
        assert re.search(rf'name="param_{name}"[^>]*value="{value}"', form)


def test_the_live_part_comes_only_when_something_has_changed(
    logged_in: LogIn, store: SqlStore
) -> None:
    batch = stored(store, tuned=((2000, 800),))
    browser = logged_in(Scope.READ)
    page = browser.get(f"/ui/networks/{batch.id}").text
    live = re.search(r'hx-get="([^"]+)" hx-trigger="every 2s"', page).group(1)
    assert browser.get(live).status_code == 204
    store.claim(batch.members[1].job)
    changed = browser.get(live)
    assert changed.status_code == 200
    assert changed.text.lstrip().startswith('<div id="live"')
    assert "running" in words(changed.text)


def test_others_have_no_buttons_and_may_not(logged_in: LogIn, store: SqlStore) -> None:
    batch = stored(store, tuned=(), user="bob")
    page = f"/ui/networks/{batch.id}"
    ada = logged_in(Scope.READ, Scope.SUBMIT)
    assert f"{page}/cancel" not in ada.get(page).text
    assert ada.form("/ui/submit", f"{page}/cancel").status_code == 403
    assert store.job(batch.members[0].job).state is JobState.QUEUED


def test_a_network_that_a_command_runs_says_how_to_go_on(logged_in: LogIn, store: SqlStore) -> None:
    batch = store.create_batch(NETWORK, [new_job("a", "c")])
    browser = logged_in(Scope.ADMIN)
    page = browser.get(f"/ui/networks/{batch.id}").text
    assert f"/ui/networks/{batch.id}/cancel" in page
    assert f"/ui/networks/{batch.id}/pause" not in page
    store.request(batch.members[0].job, JobRequest.PAUSE)
    assert f"hvxtune job resume {batch.id}" in browser.get(f"/ui/networks/{batch.id}").text


@pytest.mark.parametrize("path", ["zzz", "zzz/live", "JOB"])
def test_what_is_no_network_is_a_page_that_says_so(
    logged_in: LogIn, store: SqlStore, path: str
) -> None:
    path = path.replace("JOB", finished_job(store))
    answer = logged_in(Scope.READ).get(f"/ui/networks/{path}")
    assert answer.status_code == 404
    assert "no network or set" in answer.text
