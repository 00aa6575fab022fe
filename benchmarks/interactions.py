"""How fast the pages of a large job answer the hand, in Chromium.

Called by :mod:`benchmarks.dashboards`, which has such a job. A time begins with the input event and
ends when the frame that shows its effect is painted (the next one has begun), or for what leads to
another page with the first paint of that one. The service is a thread of this process.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from playwright.sync_api import Page

from db.sql_store import SqlStore
from tests.dashboards.chromium import Visit, chromium
from tests.dashboards.in_thread import pages_of

RUNS = 10
LIMIT_MS = 100.0
PAGE_LIMIT_MS = 300.0
"""To the first paint of another page, which loads its styles and scripts."""

TIMERS = """
// Until what `seen` gives is another thing than before, in a frame that is painted.
window.timeUntil = (kind, seen) => {
  const before = seen();
  window.answered = new Promise((resolve, reject) => addEventListener(kind, (event) => {
    setTimeout(() => reject(new Error("nothing changed")), 10_000);
    const look = () => requestAnimationFrame(() => {
      if (seen() === before) look();
      else requestAnimationFrame(() => resolve(performance.now() - event.timeStamp));
    });
    look();
  }, { capture: true, once: true }));
};
window.timeUntilPage = (kind) => addEventListener(kind, (event) => {
  sessionStorage.setItem("left", performance.timeOrigin + event.timeStamp);
}, { capture: true, once: true });
window.painted = () => new Promise((resolve) => new PerformanceObserver((list) => {
  const [paint] = list.getEntriesByName("first-contentful-paint");
  if (paint) resolve(performance.timeOrigin + paint.startTime - sessionStorage.getItem("left"));
}).observe({ type: "paint", buffered: true }));
"""


@dataclass(frozen=True)
class Interaction:
    """What is done on the page at ``place``; ``act`` is given the number of the time it is done.

    ``seen`` is the script of what changes by it; ``None`` for what leads to another page.
    """

    place: str
    name: str
    event: str
    act: Callable[[Page, int], object]
    seen: str | None = None

    def times(self, visit: Visit) -> list[float]:
        """Milliseconds of each of :data:`RUNS` times, after one that is not counted."""
        return [self._timed(visit, number) for number in range(RUNS + 1)][1:]

    def _timed(self, visit: Visit, number: int) -> float:
        page = visit.page
        if self.seen is None:
            visit.go(self.place)
            page.evaluate("kind => timeUntilPage(kind)", self.event)
            with page.expect_navigation():
                self.act(page, number)
            found = page.evaluate("painted()")
        else:
            page.evaluate(f"kind => timeUntil(kind, () => {self.seen})", self.event)
            self.act(page, number)
            found = page.evaluate("answered")
        return float(found)


def _chosen(label: str, *values: str) -> Callable[[Page, int], object]:
    def act(page: Page, number: int) -> None:
        page.get_by_label(label, exact=True).select_option(values[number % len(values)])

    return act


def _clicked(*selectors: str) -> Callable[[Page, int], object]:
    def act(page: Page, number: int) -> None:
        page.locator(selectors[number % len(selectors)]).first.click()

    return act


def _hovered(selector: str) -> Callable[[Page, int], object]:
    """The first element of ``selector`` and the heading of the page, in turn."""

    def act(page: Page, number: int) -> None:
        page.locator((selector, "h1")[number % 2]).first.hover(force=True)

    return act


def _course(page: Page, number: int) -> None:
    """Somewhere over the dots of the course, not where it was before."""
    over = page.locator("#course .u-over")
    width, height = over.evaluate("over => [over.clientWidth, over.clientHeight]")
    over.hover(position={"x": width * (0.2 + 0.6 * number / RUNS), "y": height * 0.8})


def _dot(page: Page, number: int) -> None:
    _course(page, number)
    page.mouse.down()
    page.mouse.up()


TIP = "document.querySelector('.chart-tip').textContent"
TRIALS = "document.querySelector('#trials-list').dataset.query"
LIT = "document.querySelectorAll('.lit').length"
HELP = "document.querySelector('#tip').hidden"
THEME = "document.documentElement.dataset.theme"


def interactions(job: str) -> Sequence[Interaction]:
    """Those that the pages of ``job`` offer."""
    own, analysis = f"/ui/jobs/{job}", f"/ui/jobs/{job}/analysis"
    code = f"/ui/code?own={job}-0&other={job}-1"
    return (
        Interaction(own, "hover a dot of the course", "mousemove", _course, TIP),
        Interaction(
            own, "switch its axis", "click", _clicked("[data-axis=seconds]", "[data-axis=trial]"),
            "document.querySelector('[data-axis=trial]').ariaPressed",
        ),
        Interaction(own, "change to dark or light", "click", _clicked("#theme"), THEME),
        Interaction(
            own, "open the comment and tags", "click", _clicked("details:has(#comment) > summary"),
            "document.querySelector('details:has(#comment)').open",
        ),
        Interaction(own, "choose an outcome", "change", _chosen("Outcome", "timeout", ""), TRIALS),
        Interaction(own, "sort the trials", "change", _chosen("Order", "number", "cycles"), TRIALS),
        Interaction(own, "next page of trials", "click", _clicked("#trials-next"), TRIALS),
        Interaction(own, "click a dot", "click", _dot),
        Interaction(
            analysis, "hover a dot of a knob", "mousemove", _hovered("#slices .points path"),
            "document.querySelector('#slices .hoverlayer').textContent",
        ),
        Interaction(analysis, "change to dark or light", "click", _clicked("#theme"), THEME),
        Interaction(code, "hover a loop", "mousemove", _hovered(".linked a"), LIT),
        Interaction(code, "hover an instruction", "mousemove", _hovered("td[data-help]"), HELP),
        Interaction(
            code, "zoom the timeline", "click", _clicked("[data-scale='4']", "[data-scale='0.5']"),
            "document.querySelector('#timeline-0').getAttribute('width')",
        ),
    )  # fmt: skip


def _ready(visit: Visit, place: str) -> None:
    visit.go(place)
    page = visit.page
    if place.startswith("/ui/code"):
        page.locator("table.slots").first.wait_for(state="attached")
    elif place.endswith("/analysis"):
        page.locator("#slices .points path").first.wait_for()


def bench(store: SqlStore, job: str) -> bool:
    """Prints a table; whether each median of it is within its limit."""
    over = False
    with pages_of(store) as url, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        visit = Visit.begin(page, url)
        page.add_init_script(TIMERS)
        visit.log_in("any")
        print(f"{'from input to paint':58}   median    worst")
        for place, some in groupby(interactions(job), lambda one: one.place):
            _ready(visit, place)
            for one in some:
                times = one.times(visit)
                median, worst = statistics.median(times), max(times)
                over |= median > (PAGE_LIMIT_MS if one.seen is None else LIMIT_MS)
                name = f"{place.replace(job, 'JOB')}: {one.name}"
                load = " (a page)" if one.seen is None else ""
                print(f"{name + load:58} {median:6.0f} ms {worst:6.0f} ms")
    verdict = "over" if over else "kept"
    print(f"limits of the medians: {LIMIT_MS:g} ms, {PAGE_LIMIT_MS:g} ms of a page: {verdict}")
    return not over
