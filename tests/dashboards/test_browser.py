"""The pages in Chromium: a job from the form to its object, and nothing the browser objects to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from db import open_store
from tests.dashboards.chromium import Visit, chromium, lacking
from tests.dashboards.every_page import arrive, pages, stored
from tests.rig.planned_networks import graph, stored_plan
from tests.service.served import Served, served

NETWORK = "mobilenet_v2"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lacking() is not None, reason=str(lacking())),
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("lab")
    (state / "farm.toml").write_text('[[simulator]]\nname = "sim"\nslots = 2\ntags = ["lab"]\n')
    with served(state) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, service: Served) -> Iterator[Visit]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    visit = Visit.begin(context.new_page(), service.url)
    visit.log_in(service.token)
    yield visit
    context.close()


@pytest.fixture(scope="module")
def jobs(service: Served) -> list[str]:
    """Two finished jobs of the same workload, and a set whose jobs may still be under way."""
    with service.client() as client:
        made = [client.submit("scale_u8", trials=6, seed=seed)[0]["job"] for seed in (1, 2)]
        workloads = [{"kernel": "scale_u8", "params": {"n": n}} for n in (512, 1024)]
        batch = client.submit(workloads=workloads, name="two layers", trials=2)[0]["batch"]
        assert [client.wait(job)["state"] for job in made] == ["done", "done"]
    return [*made, str(batch)]


@pytest.fixture(scope="module")
def drawn(service: Served, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A network with a plan, whose jobs nobody runs."""
    with open_store(f"sqlite:///{service.log.parent / 'hvxtune.sqlite'}") as store:
        return stored_plan(store, NETWORK, tmp_path_factory.mktemp("plans")).id


def test_a_network_is_drawn_with_its_plan(visit: Visit, drawn: str) -> None:
    page = visit.page
    visit.go(f"/ui/networks/{drawn}")
    expect(page.locator("#graph .box")).to_have_count(len(graph(NETWORK).nodes))
    titles = page.locator("#graph title").all_text_contents()
    assert any("hexagon_cdsp" in title for title in titles)
    assert any("arm_cpu" in title for title in titles)
    assert _overlapping(page.locator("#graph .box rect").evaluate_all(BOXES)) == []
    expect(page.locator("#gantt .bar-task")).not_to_have_count(0)
    expect(page.locator("#gantt .bar-call")).not_to_have_count(0)
    for unit in ("arm_cpu", "hexagon_cdsp"):
        expect(page.locator("#gantt text").get_by_text(unit).first).to_be_visible()
    page.get_by_text("bars as numbers").click()
    expect(page.get_by_role("group", name="Bars of the plan")).to_contain_text("hexagon_cdsp")
    expect(page.locator("rect.vtcm")).not_to_have_count(0)

    width = page.locator("#graph").bounding_box()["width"]  # type: ignore[index]
    sizes = page.get_by_role("group", name="Size of the drawing").first
    sizes.get_by_role("button", name="200 %").click()
    wide = page.locator("#graph").bounding_box()["width"]  # type: ignore[index]
    assert wide == pytest.approx(2 * width, abs=1.0), "pixels"
    sizes.get_by_role("button", name="Fit").focus()
    page.keyboard.press("Enter")
    frame = page.get_by_role("region", name="Graph of the network").bounding_box()
    fitted = page.locator("#graph").bounding_box()
    assert fitted["height"] <= frame["height"]  # type: ignore[index]
    assert fitted["width"] <= frame["width"]  # type: ignore[index]
    expect(sizes.get_by_role("button", name="Fit")).to_have_attribute("aria-pressed", "true")


BOXES = """boxes => boxes.map(box => box.getBoundingClientRect())
  .map(({left, right, top, bottom}) => [left, right, top, bottom])"""


def _overlapping(boxes: list[list[float]]) -> list[tuple[list[float], list[float]]]:
    return [
        (a, b)
        for a, b in combinations(boxes, 2)
        if a[0] < b[1] and b[0] < a[1] and a[2] < b[3] and b[2] < a[3]
    ]


def test_a_choice_counts_while_scripts_still_load(visit: Visit) -> None:
    """On a slow line the page can be used before its deferred scripts have come."""
    visit.page.route("**/vendor/htmx.min.js", lambda route: None)
    visit.page.goto(f"{visit.url}/ui/submit", wait_until="commit")
    visit.page.get_by_label("Kernel").select_option("scale_u8")
    visit.page.wait_for_url("**kernel=scale_u8*", wait_until="commit")
    visit.page.unroute_all()


FAULTS = {
    "document.body.insertAdjacentHTML('beforeend', '<input>')": "label: <input>",
    "document.body.insertAdjacentHTML('beforeend', '<p style=\"color:red\">x')": "style-src",
    "document.head.append(Object.assign(document.createElement('script'), {text: '1'}))":
        "script-src",
    "console.error('something is wrong')": "something is wrong",
    "document.getElementById('main').style.minWidth = '3000px'": "1600 px wider",
}  # fmt: skip


def test_the_check_of_pages_finds_faults(visit: Visit) -> None:
    visit.go("/ui/farm")
    visit.check()
    for fault in FAULTS:
        visit.page.evaluate(fault)
    with pytest.raises(AssertionError) as found:
        visit.check()
    assert [said for said in FAULTS.values() if said not in str(found.value)] == []


@pytest.fixture(scope="module")
def everything(browser: Browser, service: Served, jobs: list[str]) -> Iterator[dict[str, str]]:
    """The address of every page by name, in the states that a job and a network reach."""
    job = f"/ui/jobs/{jobs[0]}"
    visit = Visit.begin(browser.new_page(), service.url)
    visit.log_in(service.token)
    visit.go("/ui/schedules?kernel=scale_u8")
    stored_best = visit.page.locator("main tbody a.row-link").first.get_attribute("href")
    visit.go(str(stored_best))
    best = visit.page.url.removeprefix(service.url)
    visit.page.close()
    shown = {
        "jobs": "/ui/jobs",
        "kernels": "/ui/kernels",
        "submit": "/ui/submit?kernel=scale_u8",
        "job": job,
        "trial": best,
        "analysis": f"{job}/analysis",
        "schedules": "/ui/schedules",
        "compare": f"/ui/compare?own={jobs[0]}&other={jobs[1]}",
        "farm": "/ui/farm",
        "device": "/ui/farm/sim-1",
    }
    with stored(service.log.parent) as own:
        yield {
            **pages(own, shown),
            "jobs-failed": "/ui/jobs?state=failed",
            "analysis-running": f"{own.running}/analysis",
            "analysis-failed": f"{own.failed}/analysis",
            "set": f"/ui/networks/{jobs[2]}",
            "compare-toolchains": "/ui/compare?kind=toolchains",
            "code-none": "/ui/code",
        }


def test_no_page_has_faults(browser: Browser, service: Served, everything: dict[str, str]) -> None:
    """At three widths, the narrowest in dark colours, as a window becomes smaller; nothing is asked
    of other servers."""
    context = browser.new_context(viewport={"width": 1400, "height": 900}, color_scheme="light")
    asked: list[str] = []
    visit = Visit.begin(context.new_page(), service.url)
    visit.page.on("request", lambda request: asked.append(request.url))
    visit.go("/ui/login")
    visit.check()
    visit.log_in(service.token)
    visit.expected = ("404 (Not Found)",)
    faults = []
    for place in everything.values():
        try:
            visit.page.set_viewport_size({"width": 1400, "height": 900})
            visit.page.emulate_media(color_scheme="light")
            arrive(visit, place)
            visit.check()
            narrow(visit.page, 1000)
            visit.check("html-has-lang")  # and that it is no wider than the window
            if place == "/ui/jobs":
                region = visit.page.get_by_role("group", name="Jobs")
                cut = region.evaluate("region => region.scrollWidth - region.clientWidth")
                assert cut <= 0, f"{cut} px of the table are out of sight"
            visit.page.emulate_media(color_scheme="dark")
            narrow(visit.page, 400)
            visit.check()
        except AssertionError as found:
            faults.append(str(found))
    context.close()
    assert not faults, "\n".join(faults)
    assert [url for url in asked if not url.startswith((service.url, "data:", "blob:"))] == []


def narrow(page: Page, width: int) -> None:
    """Makes the window so wide and waits, for a while, until charts are drawn anew."""
    page.set_viewport_size({"width": width, "height": 900})
    beyond = "document.documentElement.scrollWidth - innerWidth"
    for _ in range(100):
        if page.evaluate(beyond) <= 0:
            break
        page.wait_for_timeout(50)


FOCUS = """() => {
  const focused = document.activeElement;
  const { left, right, top, bottom } = focused.getBoundingClientRect();
  const { outlineStyle, outlineWidth } = getComputedStyle(focused);
  return {
    inView: right > 0 && bottom > 0 && left < innerWidth && top < innerHeight,
    outlined: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2,
    what: focused.outerHTML.slice(0, 120),
  };
}"""


def walk_to(page: Page, aim: Locator, key: str = "Tab") -> None:
    """Presses ``key`` until ``aim`` has the focus, which can be seen wherever it is on the way."""
    for _ in range(150):
        page.keyboard.press(key)
        focus = page.evaluate(FOCUS)
        if focus["what"].startswith("<body"):
            continue  # beyond the last element, before the first again
        assert focus["inView"], focus["what"]
        assert focus["outlined"], focus["what"]
        if aim.evaluate("aim => aim === document.activeElement"):
            return
    raise AssertionError(f"{key} does not lead to {aim}")


@pytest.mark.path("a page")
def test_the_keyboard_alone_leads_from_log_in_to_a_comparison(
    browser: Browser, service: Served, jobs: list[str], tmp_path: Path
) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    visit = Visit.begin(context.new_page(), service.url)
    page, keys = visit.page, visit.page.keyboard
    visit.go("/ui/login")
    walk_to(page, page.get_by_label("Token"))
    keys.type(service.token)
    keys.press("Enter")
    page.wait_for_url("**/ui/jobs")

    keys.press("Tab")
    expect(page.get_by_text("Skip to content")).to_be_focused()
    keys.press("Enter")
    walk_to(page, page.get_by_role("link", name="Submit a job"))
    keys.press("Enter")
    page.wait_for_url("**/ui/submit")
    kernel = page.get_by_label("Kernel")
    walk_to(page, kernel)
    keys.type("scale_u8")
    page.wait_for_url("**kernel=scale_u8*")
    expect(kernel).to_be_focused()
    walk_to(page, page.get_by_label("Trials"))
    keys.press("Control+a")
    keys.type("4")
    walk_to(page, page.locator("summary").filter(has_text="More"))
    keys.press("Enter")
    walk_to(page, page.get_by_label("Sampler"))
    keys.press("ArrowDown")
    walk_to(page, page.get_by_role("button", name="Submit"))
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/ui/jobs/\w+$"))
    page.evaluate("window.neverReloaded = true")
    job = page.url.rpartition("/")[2]
    expect(page.locator("#live .state-done")).to_be_visible()
    assert page.evaluate("window.neverReloaded")
    expect(page.locator("#course canvas")).to_be_visible()

    walk_to(page, page.get_by_role("button", name="time"))
    keys.press("Enter")
    expect(page.get_by_role("button", name="time")).to_have_attribute("aria-pressed", "true")
    walk_to(page, page.locator("#trials tbody a.row-link").first)
    keys.press("Enter")
    page.wait_for_url("**/trials/*")
    expect(page.locator("table.listing").first).to_be_visible()
    walk_to(page, page.get_by_role("link", name=re.compile(r"_static\.o$")))
    with page.expect_download() as download:
        keys.press("Enter")
    download.value.save_as(tmp_path / "kernel.o")
    assert (tmp_path / "kernel.o").read_bytes()[:4] == b"\x7fELF"

    walk_to(page, page.get_by_role("link", name="Compare"), "Shift+Tab")
    keys.press("Enter")
    page.wait_for_url("**/ui/compare")
    walk_to(page, page.get_by_label("This"))
    keys.press("ArrowDown")
    page.wait_for_url(f"**own={job}*")
    expect(page.get_by_label("This")).to_be_focused()
    walk_to(page, page.get_by_label("Against that"))
    keys.press("ArrowDown")
    expect(page.get_by_role("group", name="Comparison")).to_contain_text("scale_u8")
    visit.check()
    context.close()


def test_the_theme_is_kept(visit: Visit) -> None:
    page = visit.page
    visit.go("/ui/jobs")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    visit.go("/ui/farm")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
