"""Searches side by side: what one found, the others try."""

from __future__ import annotations

from dataclasses import replace

from tests.rig.scale_u8 import ScaleU8
from tuner.conformance import records as sample_records
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.transfer import Relative, moves, proposals
from tuner.space import Config, Constraint, Knob, Space

SPACE = Space("unrolls", (Knob("unroll", (1, 2, 4, 8), "vectors in one iteration"),))


def config(unroll: int) -> Config:
    return Config({"unroll": unroll})


def relative(job: str, width: int, space: Space = SPACE, **cycles: int | None) -> Relative:
    """A search whose trials came to ``cycles``: ``u1`` is the textbook config."""
    problem = ScaleU8().problem({"n": width}, Contract.STATIC, find_target("hexagon-v66"))
    made = Relative(job, problem, space, config(1))
    made.learn(
        [
            trial(number, int(name[1:]), taken, "random" if number else "textbook")
            for number, (name, taken) in enumerate(cycles.items())
        ]
    )
    return made


def trial(number: int, unroll: int, cycles: int | None, origin: str) -> Trial:
    if cycles is None:
        return Trial(number, config(unroll), origin, Outcome.CUTOFF)
    measured = replace(sample_records.measurement(), cycles=cycles)
    return Trial(number, config(unroll), origin, Outcome.OK, measured)


def tried(*others: Relative, by: Relative | None = None) -> list[tuple[object, str]]:
    found = proposals(by or relative("own", 512, u1=1000), others)
    return [(config["unroll"], origin) for config, origin in found]


def test_what_gained_most_elsewhere_comes_first_and_what_gained_nothing_not_at_all() -> None:
    other = relative("a", 640, u1=1000, u2=900, u4=500, u8=1200)
    assert tried(other) == [(4, "transfer:a-2"), (2, "transfer:a-1")]


def test_what_failed_on_others_is_not_tried() -> None:
    lucky = relative("a", 1024, u1=1000, u2=800)
    cut_off = [relative(name, 640, u1=1000, u2=None) for name in "bc"]
    assert tried(lucky) == [(2, "transfer:a-1")]
    assert tried(lucky, *cut_off) == []


def test_what_the_space_has_not_becomes_what_is_nearest() -> None:
    narrow = replace(SPACE, constraints=(Constraint("unroll <= 2", "no room"),))
    own = relative("own", 512, narrow, u1=1000)
    assert tried(relative("a", 640, u1=1000, u8=500), by=own) == [(2, "transfer:a-1")]


TWO = Space("two", (*SPACE.knobs, Knob("tile", (1, 2), "rows of a tile")))


def test_a_search_begins_with_changes_of_one_knob_of_its_best() -> None:
    own = relative("own", 512)
    own.space = TWO
    textbook = Config({"unroll": 2, "tile": 1})
    own.learn([replace(trial(0, 2, 1000, "textbook"), config=textbook)])
    found = {(config["unroll"], config["tile"]) for config, _ in moves(own)}
    assert found == {(1, 1), (4, 1), (8, 1), (2, 2)}
    better = replace(trial(1, 8, 900, "neighbour"), config=Config({"unroll": 8, "tile": 1}))
    own.learn([replace(trial(0, 2, 1000, "textbook"), config=textbook), better])
    found = {(config["unroll"], config["tile"]) for config, _ in moves(own)}
    assert found == {(1, 1), (4, 1), (8, 2)}
