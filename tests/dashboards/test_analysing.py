"""What the trials of a job say together."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable

import pytest

from dashboards.pages.analysis import (
    LEAST_TRIALS,
    generator_facts,
    lanes,
    pareto,
    plots,
    share_of_generators,
)
from db.jobs.trials import AnalysedTrial
from db.sql_store import SqlStore
from service.auth.caller import Scope
from tests.dashboards.conftest import Browser
from tests.dashboards.test_job_pages import finished_job
from tuner.conformance.records import SPACE, TOOLCHAIN, spec
from tuner.records.outcome import Outcome
from tuner.space import Knob, Space

LogIn = Callable[..., Browser]
TWO = Space(
    "k", (Knob("big", (1, 2, 4, 8), "decides"), Knob("small", ("a", "b", "c"), "hardly does"))
)


def trial(
    number: int, cycles: int | None, code: int = 100, vtcm: int = 0, **config: int | str
) -> AnalysedTrial:
    outcome = Outcome.OK if cycles else Outcome.WRONG_OUTPUT
    times = float(number), number + 1.0
    return AnalysedTrial(number, outcome, "tpe", config, *times, cycles, code, vtcm, (cycles or 0,))


def landscape(count: int) -> list[AnalysedTrial]:
    rng = random.Random(3)
    made = []
    for number in range(count):
        big, small = rng.choice((1, 2, 4, 8)), rng.choice("abc")
        cycles = 10_000 // big + rng.randrange(500)
        made.append(trial(number, cycles, big=big, small=small))
    return made


def test_the_knob_that_decides_is_the_most_important() -> None:
    (only,) = generator_facts(TWO, landscape(80))
    assert [each.name for each in only.knobs] == ["big", "small"]
    assert only.knobs[0].importance > 0.8
    assert sum(each.importance or 0 for each in only.knobs) == pytest.approx(1)
    assert share_of_generators(landscape(80)) is None


def test_knobs_are_told_within_their_generator() -> None:
    """One generator is five times faster than the other, and each has a knob that decides, one
    that does nothing, and one that only it sets."""
    rng = random.Random(3)
    made = []
    for number in range(120):
        generator = "slow" if number % 3 else "fast"
        big, small = rng.choice((1, 2, 4, 8)), rng.choice("abc")
        cycles = (50_000 if generator == "slow" else 10_000) + 1000 // big + rng.randrange(9)
        extra = {f"{generator}_only": rng.choice((0, 1))}
        made.append(trial(number, cycles, generator=generator, big=big, small=small, **extra))
    made += [trial(200 + n, 70_000 + n, generator="rare", big=1) for n in range(LEAST_TRIALS - 1)]
    knobs = [Knob("generator", ("slow", "fast", "rare", "none"), ""), *TWO.knobs]
    knobs += [Knob(f"{name}_only", (0, 1), "") for name in ("slow", "fast", "none")]
    space = Space("k", tuple(knobs))
    facts = {one.name: one for one in generator_facts(space, made)}
    assert share_of_generators(made) > 0.95
    for name in ("slow", "fast"):
        told = facts[name].ranked
        assert told[0].name == "big"
        assert {one.name for one in told} == {"big", "small", f"{name}_only"}
        assert {one.measured for one in told} == {80 if name == "slow" else 40}
    assert facts["rare"].ranked == []
    drawn = plots(space, made, list(facts.values()))
    assert [one["generator"] for one in drawn["lines"]] == ["fast", "slow", "rare"]
    assert drawn["lines"][0]["knobs"][0]["name"] == "big"
    assert drawn["knobs"][0]["name"] == "generator"
    assert "unset" not in json.dumps(drawn)


def test_failures_and_gaps_are_counted_by_value() -> None:
    trials = [
        trial(0, 100, big=1, small="a"),
        trial(1, None, big=2, small="a"),
        trial(2, None, big=2, small="b"),
        trial(3, 300, big=1),
    ]
    (only,) = generator_facts(TWO, trials)
    facts = {each.name: each for each in only.knobs}
    big = {value.value: value for value in facts["big"].values}
    assert (big[2].trials, big[2].failed_share, big[2].best) == (2, 1.0, None)
    assert (big[1].best, big[1].middle, big[1].failed) == (100, 200, 0)
    assert big[8].trials == 0
    assert facts["big"].tried == 2
    assert {value.value for value in facts["small"].values} == {"a", "b", "c"}


def test_nothing_on_the_front_is_beaten() -> None:
    rng = random.Random(5)
    trials = [trial(i, rng.randrange(1, 50), code=rng.randrange(1, 50)) for i in range(200)]
    front = pareto(trials)
    beaten = {
        t.number
        for t in trials
        if any(
            (o.cycles <= t.cycles and o.code_bytes < t.code_bytes)
            or (o.cycles < t.cycles and o.code_bytes <= t.code_bytes)
            for o in trials
        )
    }
    assert front
    assert {t.number for t in front} & beaten == set()
    assert {(t.cycles, t.code_bytes) for t in trials if t.number not in beaten} == {
        (t.cycles, t.code_bytes) for t in front
    }


def test_trials_at_the_same_time_are_on_lanes_of_their_own() -> None:
    def during(number: int, begin: float, end: float | None) -> AnalysedTrial:
        outcome = Outcome.OK if end else None
        return AnalysedTrial(number, outcome, "tpe", {}, begin, end, 5, 1, None, ())

    bars = lanes([during(0, 0, 4), during(1, 1, 2), during(2, 2, 6), during(3, 5, None)], now=9.0)
    assert [(bar["trial"], bar["lane"]) for bar in bars] == [(0, 0), (1, 1), (2, 1), (3, 0)]
    assert bars[3]["outcome"] == "running"
    assert bars[3]["seconds"] == 4.0


def test_charts_of_many_trials_stay_small_and_keep_the_best() -> None:
    trials = landscape(10_000)
    drawn = plots(TWO, trials, generator_facts(TWO, trials))
    assert len(json.dumps(drawn)) < 200_000
    assert drawn["lines"][0]["points"][0][0] == min(t.cycles or 0 for t in trials)


def test_the_page_shows_it(logged_in: LogIn, store: SqlStore) -> None:
    browser = logged_in(Scope.READ)
    place = f"/ui/jobs/{finished_job(store)}/analysis"
    assert 'id="plots"' not in browser.get(place).text, "at first the page comes without them"
    page = browser.get(f"{place}/figures").text
    assert 'id="plots"' in browser.get(place).text, "and then with what is kept"
    data = json.loads(re.search(r'id="plots">(.*?)</script>', page, re.DOTALL).group(1))
    assert [point[0] for point in data["lines"][0]["points"]] == [1000, 2000, 3000]
    assert "Not enough data" in page
    assert "never tried" in page
    empty = store.create_job(spec(), SPACE, TOOLCHAIN)
    assert "No trial has finished yet" in browser.get(f"/ui/jobs/{empty.id}/analysis").text
