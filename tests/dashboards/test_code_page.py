"""The code of two trials side by side."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.coded import TIMES, answer_with, coded_job, explanations
from tests.dashboards.conftest import Browser
from tests.dashboards.test_more_pages import words
from tests.service.stored import problem, store_schedule
from tuner.kernels import find_kernel
from tuner.measure.explanation import Explanation
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

pytestmark = pytest.mark.sqlite

LogIn = Callable[..., Browser]


@pytest.fixture(scope="module")
def explained(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Explanation]:
    return explanations(tmp_path_factory.mktemp("explained"))


@pytest.fixture
def fail(monkeypatch: pytest.MonkeyPatch, explained: dict[int, Explanation]) -> Callable[[], None]:
    return answer_with(monkeypatch, explained)


@pytest.fixture
def job(store: SqlStore, explained: dict[int, Explanation], fail: Callable[[], None]) -> str:
    return coded_job(store, explained)


def shown(browser: Browser, query: str) -> str:
    """The page once its trials are explained."""
    while True:
        page = browser.get(f"/ui/code?{query}")
        assert page.status_code == 200
        if 'http-equiv="refresh"' not in page.text:
            return page.text
        assert "/code/sides?" in page.text


def rows_of(page: str) -> dict[str, str]:
    """Each loop's section by its title."""
    found = re.findall(r'<section class="code-row(.*?)</section>', page, re.DOTALL)
    return {re.findall(r"<h2[^>]*>(.*?)</h2>", each)[0]: each for each in found}


def test_loops_of_two_trials_are_side_by_side(logged_in: LogIn, job: str) -> None:
    page = shown(logged_in(Scope.READ), f"own={job}-0&other={job}-1")
    row = rows_of(page)["Loop sums, update 0: r"]
    times = [f"{4 * times} times" for times in TIMES.values()]
    assert re.findall(r"\d+ times", words(row)) == times
    assert row.count("vrmpy(v3.ub,v1.ub)") == 2
    assert "Loop C: y.yo" in rows_of(page)


def test_packets_are_shown_by_slot_with_what_they_wait_for(
    logged_in: LogIn, job: str, explained: dict[int, Explanation]
) -> None:
    page = shown(logged_in(Scope.READ), f"own={job}-0")
    row = rows_of(page)["Loop sums, update 0: r"]
    first, second = (
        [words(cell) for cell in re.findall(r"<td.*?</td>", line, re.DOTALL)]
        for line in re.findall(r"<tr data-packet.*?</tr>", row, re.DOTALL)
    )
    assert first[1:5] == ["v2.uw += vrmpy(v3.ub,v1.ub)", "", "", "r6 = memw(r5+#0)"]
    assert second[1] == "r7 = mpyi(r6,r1)"
    assert ":endloop0" in second[4]
    region = next(r for r in explained[0].regions if r.times == 4 * TIMES[0])
    waits = {cause: n for cause, n in region.packets[1].stalls.items() if n}
    assert waits
    assert second[5] == ", ".join(f"{cause} {n}" for cause, n in waits.items())


def test_each_instruction_leads_to_its_rule_and_source(logged_in: LogIn, job: str) -> None:
    page = shown(logged_in(Scope.READ), f"own={job}-0")
    cell = re.search(r'data-help="(\d+)">v2.uw \+= vrmpy', html.unescape(page))
    assert cell
    help_row = re.search(rf'<tr id="help-{cell[1]}">.*?</tr>', page, re.DOTALL)
    assert help_row
    text = words(help_row[0])
    assert "vrmpy vector multiply result 9, sources 5" in text
    assert "LLVM 19.1 instruction itineraries of hexagonv66" in text


def test_schedule_nest_packets_and_drawings_share_the_rows_of_a_loop(
    logged_in: LogIn, job: str
) -> None:
    page = html.unescape(shown(logged_in(Scope.READ), f"own={job}-0"))
    number = re.search(r'data-rows="(\d)" aria-labelledby="row-title-\d">\s*<details[^>]*>'
                       r"\s*<summary><h2[^>]*>Loop sums", page)  # fmt: skip
    assert number
    for text in ("for r:", "vectorized x.xi in [0, 31]:", "sums.update(0).reorder(v_xi, v_r_x);"):
        line = rf'data-rows="{number[1]}"><a href="#row-{number[1]}">{re.escape(text)}</a>'
        assert re.search(line, page), text
    assert re.search(rf'href="#row-{number[1]}" aria-label="sums, update 0: r: [\d,]+ model', page)
    assert re.search(rf'<rect class="bar loop-{number[1]}" data-packet="0-\d+"', page)
    assert re.search(r'<rect class="bar group-dependency" data-packet="0-\d+"', page)
    outer = re.search(r'data-rows="(\d)"><a href="#row-\d">for y.yo in \[0, 3\]:', page)
    assert outer
    assert outer[1] != number[1]


def test_code_that_names_no_loops_is_paired_by_place(logged_in: LogIn, job: str) -> None:
    page = shown(logged_in(Scope.READ), f"own={job}-2&other={job}-0")
    assert "Not scheduled by Halide" in page
    row = rows_of(page)["Loop sums, update 0: r"]
    assert "one side names no loop" in row
    assert row.count("vrmpy(v3.ub,v1.ub)") == 2


def test_what_cannot_be_shown_says_what_to_do(
    logged_in: LogIn, store: SqlStore, job: str, tmp_path: Path
) -> None:
    browser = logged_in(Scope.READ)
    target = find_target("hexagon-v66")
    sobel = find_kernel("sobel_u8").problem(None, Contract.STATIC, target)
    for query, status, said in (
        ("own=nonsense", 422, "follow the link"),
        ("own=1rtx-0", 404, "choose one from the list of jobs"),
        (f"own={job}-99", 404, "choose one from the job"),
        (f"own={job}-3", 404, "choose a measured trial"),
        (f"own={job}-0&other={store_schedule(store, sobel, 900)}", 422, "choose another trial"),
    ):
        page = browser.get(f"/ui/code?{query}")
        assert page.status_code == status, query
        assert said in words(page.text), query
    files = [path for path in (tmp_path / "state" / "artifacts").rglob("*") if path.is_file()]
    for path in files:
        path.unlink()
    assert files
    page = browser.get(f"/ui/code?own={job}-0")
    assert page.status_code == 410
    assert "measure its config again" in words(page.text)


def test_a_run_that_fails_is_told_on_the_page(
    logged_in: LogIn, job: str, fail: Callable[[], None]
) -> None:
    fail()
    text = shown(logged_in(Scope.READ), f"own={job}-0")
    assert "it took too long" in words(text)
    assert "table" not in text


def test_trials_and_comparisons_lead_to_code(logged_in: LogIn, store: SqlStore, job: str) -> None:
    browser = logged_in(Scope.READ)
    assert "follow" in words(browser.get("/ui/code").text)
    page = browser.get(f"/ui/jobs/{job}/trials/0").text
    assert f'href="/ui/code?own={job}-0"' in page
    assert f'href="/ui/code?own={job}-0&amp;other={job}-1"' in page
    assert "/ui/code" not in browser.get(f"/ui/jobs/{job}/trials/3").text
    own, other = (
        store_schedule(store, problem(contract=each, m=128, n=128, k=128), 900)
        for each in ("static", "none")
    )
    sides = "&".join(
        f"{name}={each.rpartition('-')[0]}" for name, each in (("own", own), ("other", other))
    )
    page = browser.get(f"/ui/compare?{sides}").text
    assert f'href="/ui/code?own={own}&amp;other={other}"' in page
