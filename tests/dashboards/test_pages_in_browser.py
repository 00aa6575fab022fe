"""What people met on the pages, in Chromium: over jobs of which this process is the conductor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from db.sql_store import SqlStore
from tests.dashboards.chromium import Visit, chromium, lacking
from tests.dashboards.in_thread import pages_of
from tests.dashboards.test_job_pages import finished_job
from tests.service.stored import store_doubted
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.records.outcome import Outcome
from tuner.records.trial import JobState, Submission

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, store: SqlStore) -> Iterator[Visit]:
    with pages_of(store) as url:
        context = browser.new_context(viewport={"width": 1400, "height": 900})
        visit = Visit.begin(context.new_page(), url)
        visit.log_in("any")
        yield visit
        context.close()


def running_job(store: SqlStore) -> tuple[str, int]:
    """Three trials in flight, none finished; its id and the claim of this process."""
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("ada")).id
    token = store.claim(job)
    store.commit(job, token, started=[pending(n) for n in range(3)])
    return job, token


def finish(store: SqlStore, job: str, token: int, number: int, cycles: int) -> None:
    made = artifact(number)
    store.commit(job, token, finished=[ok(number, made, cycles)], artifacts=[made], spent_s=9.0)


def best_of(page: Page) -> tuple[str, str]:
    """The best cycles of the head and of the first row of the table."""
    head = page.locator(".figures .lead dd").inner_text().split()[0]
    return head, page.locator("#trials tbody tr").first.locator("td").nth(2).inner_text()


def test_the_table_of_a_running_job_agrees_with_its_head(visit: Visit, store: SqlStore) -> None:
    job, token = running_job(store)
    page = visit.page
    visit.go(f"/ui/jobs/{job}")
    expect(page.locator("#trials")).to_contain_text("No trial has finished yet")
    for number, cycles in enumerate((95_466, 88_172)):
        finish(store, job, token, number, cycles)
        expect(page.locator(".figures .lead")).to_contain_text(f"{cycles:,}")
        assert best_of(page) == (f"{cycles:,}", f"{cycles:,}")
    expect(page.locator("#trials-total")).to_have_text("2")
    assert page.locator("#trials").get_by_text("the best config").count() == 1
    visit.check()
    legend = page.locator("[data-mark]")
    expect(legend.filter(has_text="cut off")).to_be_hidden()
    store.commit(job, token, finished=[failed(2, Outcome.CUTOFF)])
    expect(legend.filter(has_text="cut off")).to_be_visible()
    expect(legend.filter(has_text="failed")).to_be_hidden()


def test_a_page_tells_that_the_service_is_gone_and_recovers(visit: Visit, store: SqlStore) -> None:
    job, token = running_job(store)
    finish(store, job, token, 0, 5000)
    page = visit.page
    visit.go(f"/ui/jobs/{job}")
    told = page.locator("#connection")
    expect(told).to_be_hidden()
    expect(page.get_by_text("to go")).to_be_visible()
    visit.expected = ("htmx:", "ERR_INTERNET_DISCONNECTED")
    page.context.set_offline(True)
    expect(told).to_contain_text("Connection lost")
    expect(page.get_by_text("to go")).to_be_hidden()
    visit.check()
    finish(store, job, token, 1, 4000)
    page.context.set_offline(False)
    expect(told).to_be_hidden()
    expect(page.locator(".figures .lead")).to_contain_text("4,000")


NOTE_TEXTS = """
const draw = CanvasRenderingContext2D.prototype.fillText;
window.drawn = new Map();
CanvasRenderingContext2D.prototype.fillText = function (text, x, ...rest) {
  const left = this.canvas.parentElement.querySelector(".u-over").offsetLeft;
  window.drawn.set(text, x / devicePixelRatio - left);
  return draw.call(this, text, x, ...rest);
};
"""
"""Keeps how far to the right of the course's left edge each text was drawn last."""


def _drawn(page: Page, x: float, y: float, colour: str) -> bool:
    """Whether the course has a colour of the page's style near a point."""
    return bool(
        page.locator("#course canvas").evaluate(
            """(canvas, [x, y, name]) => {
              const over = canvas.parentElement.querySelector(".u-over");
              const [reach, ratio] = [24, devicePixelRatio];
              const [left, top] = [over.offsetLeft + x - reach, over.offsetTop + y - reach];
              const size = 2 * reach * ratio;
              const drawing = canvas.getContext("2d");
              const { data } = drawing.getImageData(left * ratio, top * ratio, size, size);
              const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
              const wanted = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
              const same = (i) => wanted.every((part, n) => Math.abs(data[i + n] - part) < 12);
              return data.some((_, i) => i % 4 === 3 && data[i] > 99 && same(i - 3));
            }""",
            [x, y, colour],
        )
    )


def _pointed_at(page: Page, said: str, height: int | None = None) -> tuple[float, float]:
    """The place on the course at which its text begins with ``said``, of a trial: at ``height``, or
    wherever on the axis that is."""
    over, tip = page.locator("#course .u-over"), page.locator(".chart-tip")
    box = over.bounding_box()
    assert box is not None
    x = min(page.evaluate("number => window.drawn.get(number)", said[6]), box["width"] - 1)
    for y in [height] if height else range(20, int(box["height"]), 10):
        over.hover(position={"x": x, "y": y})
        if said in tip.inner_text():
            break
    expect(tip).to_contain_text(said)
    return x, y


def test_the_line_of_the_best_follows_the_rule_of_the_job(visit: Visit, store: SqlStore) -> None:
    visit.page.add_init_script(NOTE_TEXTS)
    for prefer, best in (("robust", "1,000"), ("fastest", "900")):
        visit.go(f"/ui/jobs/{store_doubted(store, prefer=prefer)}")
        _pointed_at(visit.page, f"trial 1: 1,000 cycles, best so far {best}, ")


def test_a_click_on_a_mark_of_the_course_opens_its_trial(visit: Visit, store: SqlStore) -> None:
    """A mark stands over the number of its trial, as the table has it."""
    job, token = running_job(store)
    finish(store, job, token, 0, 5000)
    finish(store, job, token, 1, 4000)
    store.commit(job, token, finished=[failed(2, Outcome.TIMEOUT)])
    store.release(job, token, JobState.DONE)
    page = visit.page
    page.add_init_script(NOTE_TEXTS)
    for height, said in ((None, "trial 1: 4,000 cycles"), (3, "trial 2: timeout")):
        visit.go(f"/ui/jobs/{job}")
        assert _drawn(page, *_pointed_at(page, said, height), "--bad" if height else "--dot")
        page.mouse.down()
        page.mouse.up()
        page.wait_for_url(f"**/ui/jobs/{job}/trials/{said[6]}")


def test_a_job_that_ended_without_a_measurement_promises_none(
    visit: Visit, store: SqlStore
) -> None:
    job, token = running_job(store)
    store.commit(job, token, finished=[failed(0)])
    store.release(job, token, JobState.FAILED, "no trial gave a valid result")
    visit.go(f"/ui/jobs/{job}")
    course = visit.page.locator("#course")
    expect(course).to_have_text("No trial of this job was measured.")
    box = course.bounding_box()
    assert box is not None
    assert box["height"] < 120
    visit.check()


def test_a_filter_replaces_the_table_alone_and_stays_while_the_job_runs(
    visit: Visit, store: SqlStore
) -> None:
    job, token = running_job(store)
    finish(store, job, token, 0, 5000)
    store.commit(job, token, finished=[failed(1)])
    page = visit.page
    visit.go(f"/ui/jobs/{job}")
    page.evaluate("window.neverReloaded = true")
    outcome = page.get_by_label("Outcome", exact=True)
    outcome.focus()
    outcome.select_option("compile_error")
    page.wait_for_url("**outcome=compile_error*")
    rows = page.locator("#trials tbody tr")
    expect(rows).to_have_count(1)
    expect(outcome).to_be_focused()
    finish(store, job, token, 2, 4000)
    expect(page.locator(".figures .lead")).to_contain_text("4,000")
    expect(rows).to_have_count(1)
    assert page.evaluate("window.neverReloaded")
    visit.check()
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Outcome", exact=True).select_option("")
    page.wait_for_url("**outcome=&*")
    expect(rows).to_have_count(3)
    page.go_back()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Outcome", exact=True)).to_have_value("compile_error")


def test_a_job_is_annotated_and_found_again_by_keyboard(visit: Visit, store: SqlStore) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("test")).id
    finished_job(store)
    page = visit.page
    page.set_viewport_size({"width": 400, "height": 900})
    visit.go(f"/ui/jobs/{job}")
    page.get_by_text("Edit comment and tags").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type(f"for the demo\n{60 * 'x'}")
    page.keyboard.press("Tab")
    page.keyboard.type(" ".join(f"{10 * 'tag-'}"[:-2] + str(n) for n in range(10)))
    visit.check()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Comment and tags").get_by_role("link")).to_have_count(10)
    visit.check()
    page.get_by_label("Comment and tags").get_by_role("link").first.press("Enter")
    page.wait_for_url("**/ui/jobs?tag=*")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    visit.check()
