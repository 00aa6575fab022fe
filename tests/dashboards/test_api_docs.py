"""The page of the routes works, and asks nobody but the service."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import expect

from dashboards.application import SECURITY_HEADERS
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.chromium import Visit, chromium, lacking
from tests.dashboards.conftest import Browser
from tests.dashboards.tokens import make_token
from tests.service.live import live

pytestmark = pytest.mark.sqlite


def test_everything_it_loads_comes_from_the_service(browser: Browser) -> None:
    page = browser.get("/docs")
    assert page.status_code == 200
    loaded = re.findall(
        r'<(?:link|script|div)[^>]* (?:src|href|data-description)="([^"]+)"', page.text
    )
    assert len(loaded) >= 8
    assert {place: browser.get(place).status_code for place in loaded} == dict.fromkeys(loaded, 200)
    assert all(place.startswith("/") and not place.startswith("//") for place in loaded)
    assert {name: page.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_there_is_no_second_page_of_routes(browser: Browser) -> None:
    assert browser.get("/redoc").status_code == 401


@pytest.mark.slow
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_a_route_is_tried_without_faults(app: FastAPI, store: SqlStore) -> None:
    """Nothing is wrong at any step, and no other host is asked."""
    token = make_token(store, "ada", (Scope.READ,)).text
    asked: list[str] = []
    with chromium() as opened, live(app) as url:
        context = opened.new_context(viewport={"width": 400, "height": 900})
        visit = Visit.begin(context.new_page(), url)
        page = visit.page
        page.on("request", lambda request: asked.append(request.url))
        visit.go("/docs")
        submit, jobs = (
            page.locator(f"#operations-jobs-{name}") for name in ("submit_job", "list_jobs")
        )
        expect(submit).to_be_visible()
        ground = "getComputedStyle(document.body).backgroundColor"
        as_system = page.evaluate(ground)
        page.locator("#theme").click()
        assert page.evaluate(ground) != as_system
        visit.check()
        page.locator("#theme").click()

        page.get_by_role("button", name="Authorize").first.click()
        page.locator(".modal-ux input").fill(token)
        visit.check()
        page.get_by_role("button", name="Apply credentials").click()
        page.get_by_role("button", name="Close").last.click()

        for route in (submit, jobs):
            route.get_by_role("button").first.click()
            route.get_by_role("button", name="Try it out").click()
        expect(submit.get_by_label("Request body")).to_have_value(re.compile("gemm_u8"))
        jobs.get_by_label("state").select_option("queued")
        jobs.get_by_role("button", name="Execute").click()
        answer = jobs.locator(".live-responses-table")
        expect(answer).to_contain_text("next_cursor")
        visit.check()
    hosts = {urlsplit(place).netloc for place in asked if not place.startswith("data:")}
    assert hosts == {urlsplit(url).netloc}
    assert any("/v1/jobs?" in place and "state=queued" in place for place in asked)
