"""The page of the routes works, and asks nobody but the service."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from dashboards.application import SECURITY_HEADERS
from tests.dashboards.chromium import WATCH_POLICY, chromium, lacking, patient
from tests.dashboards.conftest import Browser
from tests.service.live import live


def test_everything_it_loads_comes_from_the_service(browser: Browser) -> None:
    page = browser.get("/docs")
    assert page.status_code == 200
    loaded = re.findall(r'(?:src|href|data-description)="([^"]+)"', page.text)
    assert len(loaded) >= 4
    assert {place: browser.get(place).status_code for place in loaded} == dict.fromkeys(loaded, 200)
    assert all(place.startswith("/") and not place.startswith("//") for place in loaded)
    assert {name: page.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS


def test_there_is_no_second_page_of_routes(browser: Browser) -> None:
    assert browser.get("/redoc").status_code == 401


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium() as opened:
        page = patient(opened.new_page())
        page.add_init_script(WATCH_POLICY)
        yield page


@pytest.mark.slow
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_no_other_host_is_asked(app: FastAPI, page: Page) -> None:
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with live(app) as url:
        page.goto(f"{url}/docs")
        route = page.locator("#operations-jobs-submit_v1_jobs_post")
        expect(route).to_be_visible()
        route.get_by_role("button").first.click()
        expect(route.locator(".opblock-body")).to_be_visible()
        page.wait_for_load_state("networkidle")
        breaches = page.evaluate("window.policyViolations")
    hosts = {urlsplit(place).netloc for place in asked if not place.startswith("data:")}
    assert hosts == {urlsplit(url).netloc}
    assert [*complaints, *breaches] == []
