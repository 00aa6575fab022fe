"""Links of the code page in Chromium, by pointer and keyboard, and what works without scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from db.sql_store import SqlStore
from tests.dashboards.chromium import Visit, chromium, lacking
from tests.dashboards.coded import answer_with, coded_job, explanations
from tests.dashboards.in_thread import pages_of
from tuner.measure.explanation import Explanation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]
WIDTHS = (1400, 1000, 400)


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Explanation]:
    return explanations(tmp_path_factory.mktemp("explained"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def job(store: SqlStore, explained: dict[int, Explanation], monkeypatch: pytest.MonkeyPatch) -> str:
    answer_with(monkeypatch, explained)
    return coded_job(store, explained)


@pytest.fixture
def url(store: SqlStore, job: str) -> Iterator[str]:
    with pages_of(store) as address:
        yield address


def lit(page: Page) -> set[str]:
    """The kinds of elements that are lit now."""
    found = page.eval_on_selector_all(
        ".lit, .lit-packet", "all => all.map(each => each.localName.toLowerCase())"
    )
    return set(found)


def cell(page: Page, text: str) -> Locator:
    return page.locator("td[data-help]", has_text=text).first


def test_pointer_and_keyboard_link_what_belongs_together(
    browser: Browser, url: str, job: str
) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    visit = Visit.begin(context.new_page(), url)
    visit.log_in("any")
    visit.go(f"/ui/code?own={job}-0&other={job}-1")
    page = visit.page
    page.locator("table.slots").first.wait_for()

    loop = page.get_by_role("link", name="for r:").first
    for point in (loop.hover, loop.focus):
        page.locator("h1").hover()
        page.locator("#own").focus()
        assert lit(page) == set()
        point()
        assert lit(page) == {"li", "a", "section"}, "nest, drawing and packets"

    multiply = cell(page, "vrmpy(v3.ub,v1.ub)")
    multiply.hover()
    tip = page.get_by_role("tooltip")
    expect(tip).to_contain_text("vrmpy: vector multiply")
    expect(tip).to_contain_text("itineraries of hexagonv66")
    assert {"tr", "rect"} <= lit(page), "the packet, in its table and on the timeline"

    page.locator("#own").focus()
    multiply.focus()
    expect(multiply).to_have_attribute("aria-describedby", "tip")
    page.keyboard.press("ArrowRight")
    expect(tip).to_contain_text("memw: scalar load")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text("mpyi: scalar multiply")
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()

    drawing = page.locator("#timeline-0")
    before = drawing.bounding_box()
    page.get_by_role("button", name="200 %").click()
    after = drawing.bounding_box()
    assert before
    assert after
    assert after["width"] == pytest.approx(2 * before["width"])
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    visit.check()
    page.locator("#theme").click()
    visit.check()
    context.close()
