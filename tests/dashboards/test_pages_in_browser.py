"""What people met on the pages, in Chromium: over jobs of which this process is the conductor."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from db.sql_store import SqlStore
from tests.dashboards.chromium import Visit, chromium, lacking
from tests.dashboards.in_thread import pages_of
from tests.dashboards.test_job_pages import finished_job
from tests.service.stored import problem, store_schedule
from tuner.conformance.records import SPACE, TOOLCHAIN, artifact, failed, ok, pending, spec
from tuner.conformance.stores import new_job
from tuner.records.batch import BatchPlan
from tuner.records.outcome import Outcome
from tuner.records.trial import NOT_REACHED, JobState, Submission

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]
WIDTHS = (1400, 1000, 400)


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


def test_a_filtered_table_stays_filtered_and_in_its_place(visit: Visit, store: SqlStore) -> None:
    job, token = running_job(store)
    store.commit(job, token, finished=[failed(0)])
    page = visit.page
    page.set_viewport_size({"width": 240, "height": 800})  # at 400 it fits
    visit.go(f"/ui/jobs/{job}?outcome=compile_error")
    region = page.get_by_role("group", name="Trials", exact=True)
    page.locator("#trial-0").focus()
    scrolled = region.evaluate("region => { region.scrollLeft = 20; return region.scrollLeft }")
    assert scrolled > 0
    finish(store, job, token, 1, 5000)
    expect(page.locator(".figures .lead")).to_contain_text("5,000")
    expect(page.locator("#trials tbody tr")).to_have_count(1)
    expect(page.locator("#trials tbody")).to_contain_text("compile_error")
    assert region.evaluate("region => region.scrollLeft") == scrolled
    expect(page.locator("#trial-0")).to_be_focused()


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


def test_what_the_budget_did_not_reach_is_not_called_cancelled(
    visit: Visit, store: SqlStore
) -> None:
    plan = BatchPlan(name="net", trials=1)
    batch = store.create_batch(plan, [new_job(str(n)) for n in range(12)])
    for number, member in enumerate(batch.members):
        token = store.claim(member.job)
        if number:
            store.release(member.job, token, JobState.CANCELLED, NOT_REACHED)
        else:
            finish(store, member.job, token, 0, 5000)
            store.release(member.job, token, JobState.DONE)
    alone = finished_job(store)
    visit.page.set_viewport_size({"width": 400, "height": 800})
    visit.go("/ui/jobs")
    rows = visit.page.locator("#jobs tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text(alone)
    assert visit.page.evaluate("document.body.scrollHeight") < 1200
    for place in (f"/ui/networks/{batch.id}", f"/ui/jobs?batch={batch.id}"):
        visit.go(place)
        tables = visit.page.locator("main table")
        expect(tables.get_by_text("not reached")).to_have_count(11)
        expect(tables.get_by_text("cancelled")).to_have_count(0)
    visit.go(f"/ui/jobs/{batch.members[1].job}")
    expect(visit.page.locator("#live")).to_contain_text("the budget of the batch was spent")
    visit.check()


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
        over = page.locator("#course .u-over")
        box = over.bounding_box()
        assert box is not None
        at = page.evaluate("number => window.drawn.get(number)", said[6])
        places = [height] if height else range(20, int(box["height"]), 10)
        for y in places:  # wherever 4,000 cycles are on the axis
            over.hover(position={"x": min(at, box["width"] - 1), "y": y})
            if said in page.locator(".chart-tip").inner_text():
                break
        expect(page.locator(".chart-tip")).to_contain_text(said)
        assert _drawn(page, min(at, box["width"] - 1), y, "--bad" if height else "--dot")
        page.mouse.down()
        page.mouse.up()
        page.wait_for_url(f"**/ui/jobs/{job}/trials/{said[6]}")


def _contrast(page: Page, of: str, on: str) -> float:
    """Of two colours of the page's style (WCAG 2.2, contrast ratio)."""

    def light(name: str) -> float:
        text = page.evaluate(
            f"getComputedStyle(document.documentElement).getPropertyValue('{name}').trim()"
        )
        parts = [int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True)))

    low, high = sorted((light(of), light(on)))
    return (high + 0.05) / (low + 0.05)


def test_dots_can_be_told_from_the_ground(visit: Visit) -> None:
    for _ in ("light", "dark"):
        for ground in ("--paper", "--raised"):
            assert _contrast(visit.page, "--dot", ground) >= 3, "WCAG 2.2, 1.4.11"
        visit.page.locator("#theme").click()


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_ended_without_a_measurement_promises_none(
    visit: Visit, store: SqlStore, state: JobState
) -> None:
    job, token = running_job(store)
    store.commit(job, token, finished=[failed(0)])
    store.release(job, token, state, "no trial gave a valid result")
    visit.go(f"/ui/jobs/{job}")
    course = visit.page.locator("#course")
    expect(course).to_have_text("No trial of this job was measured.")
    box = course.bounding_box()
    assert box is not None
    assert box["height"] < 120
    visit.check()


def test_going_back_shows_the_filter_that_is_applied(visit: Visit, store: SqlStore) -> None:
    job = finished_job(store)
    page = visit.page
    visit.go(f"/ui/jobs/{job}")
    page.get_by_label("Outcome", exact=True).select_option("compile_error")
    page.wait_for_url("**outcome=compile_error*")
    page.go_back()
    expect(page.locator("#trials tbody tr")).to_have_count(4)
    expect(page.get_by_label("Outcome", exact=True)).to_have_value("")


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


def test_the_legend_names_what_is_drawn(visit: Visit, store: SqlStore) -> None:
    job, token = running_job(store)
    finish(store, job, token, 0, 5000)
    visit.go(f"/ui/jobs/{job}")
    legend = visit.page.locator("[data-mark]")
    expect(legend.filter(has_text="failed")).to_be_hidden()
    store.commit(job, token, finished=[failed(1, Outcome.CUTOFF)])
    expect(legend.filter(has_text="cut off")).to_be_visible()
    store.commit(job, token, finished=[failed(2)])
    expect(legend.filter(has_text="failed")).to_be_visible()


def test_a_wrong_address_keeps_the_navigation(visit: Visit) -> None:
    visit.expected = ("404 (Not Found)",)
    for place in ("/ui/nothing/here", "/ui/jobs/1rt00000"):
        visit.go(place)
        navigation = visit.page.get_by_role("navigation", name="Main")
        expect(navigation.get_by_role("link", name="Schedules")).to_be_visible()
        expect(visit.page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(visit.page.get_by_role("button", name="Log out")).to_be_visible()
        visit.check()


@pytest.mark.parametrize("width", [1400, 400])
def test_labels_of_the_roofline_cover_nothing(visit: Visit, store: SqlStore, width: int) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN).id
    token = store.claim(job)
    made = [artifact(n) for n in range(4)]
    cycles = (2230, 2220, 2210, 2225)
    origins = ("default", "textbook", "tpe", "tpe")
    trials = [ok(n, made[n], cycles[n], origin=origins[n]) for n in range(4)]
    store.commit(job, token, started=[pending(n) for n in range(4)])
    store.commit(job, token, finished=trials, artifacts=made)
    store.release(job, token, JobState.DONE)
    visit.page.set_viewport_size({"width": width, "height": 900})
    visit.go(f"/ui/jobs/{job}/trials/3")
    labels = visit.page.locator("section[aria-labelledby=roofline-title] svg text")
    boxes = labels.evaluate_all(
        "all => all.map(one => [one.textContent, ...Object.values(one.getBBox ? "
        "(({x, y, width, height}) => ({x, y, width, height}))(one.getBBox()) : {})])"
    )
    upright = [box for box in boxes if not re.search("per cycle$", box[0]) or box[1] > 100]
    covered = [
        (a[0], b[0])
        for i, a in enumerate(upright)
        for b in upright[i + 1 :]
        # Letters are lower than their line by about 4.
        if a[1] < b[1] + b[3]
        and b[1] < a[1] + a[3]
        and a[2] + 4 < b[2] + b[4]
        and b[2] + 4 < a[2] + a[4]
    ]
    assert len(upright) > 8
    assert covered == []


@pytest.mark.parametrize("width", WIDTHS)
def test_no_column_is_cut(visit: Visit, store: SqlStore, width: int) -> None:
    """Whatever is wider than its place can be scrolled to, and no page is wider than the window."""
    finished_job(store, user="somebody-with-a-long-name")
    job, token = running_job(store)
    finish(store, job, token, 0, 5000)
    visit.page.set_viewport_size({"width": width, "height": 900})
    for place in ("/ui/jobs", f"/ui/jobs/{job}", "/ui/schedules", "/ui/compare", "/ui/farm"):
        visit.go(place)
        visit.check()
        if width >= 1000 and place == "/ui/jobs":
            region = visit.page.get_by_role("group", name="Jobs")
            cut = region.evaluate("region => region.scrollWidth - region.clientWidth")
            assert cut <= 0, f"{cut} px of the table are out of sight"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_job_is_annotated_and_found_again_by_keyboard(
    visit: Visit, store: SqlStore, width: int
) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN, Submission("test")).id
    finished_job(store)
    page = visit.page
    page.set_viewport_size({"width": width, "height": 900})
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
    visit.go("/ui/jobs")
    page.get_by_role("button", name=f"Pin {job}").press("Enter")
    expect(page.get_by_role("button", name=f"Pin {job}", pressed=True)).to_be_visible()
    visit.check()
    page.get_by_label("Pinned").select_option("by me")
    expect(page.locator("#jobs tbody tr")).to_have_count(1)
    visit.check()
    page.get_by_text("Save this view").press("Enter")
    page.get_by_label("Name of the view").fill("mine")
    visit.check()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="mine")).to_have_attribute("aria-current", "page")
    visit.check()
    page.get_by_role("button", name="Delete the view").press("Enter")
    expect(page.get_by_text("Save this view")).to_be_visible()


def test_convolutions_are_a_short_map(visit: Visit, store: SqlStore) -> None:
    """Shapes of a network have no two extents in common: a grid for each would be empty."""
    shapes = [
        (56, 24, 144),
        (28, 144, 32),
        (28, 32, 192),
        (14, 192, 64),
        (14, 64, 384),
        (7, 960, 160),
    ]
    for size, deep, out in shapes:
        of = problem(
            "conv2d_u8", height=size, width=size, channels_in=deep, channels_out=out, size=1
        )
        store_schedule(store, of, 50_000)
    visit.go("/ui/schedules/shapes?kernel=conv2d_u8")
    page = visit.page
    expect(page.get_by_role("group", name="Shapes", exact=True).locator("tbody tr")).to_have_count(
        6
    )
    expect(page.locator("table.grid")).to_have_count(0)
    assert page.evaluate("document.body.scrollHeight") < 1000
    visit.check()


def test_figures_of_an_analysis_come_after_its_page(visit: Visit, store: SqlStore) -> None:
    job = finished_job(store)
    for _ in ("worked out", "kept"):
        visit.go(f"/ui/jobs/{job}/analysis")
        expect(visit.page.locator("#lines .main-svg").first).to_be_visible()
        visit.check()
