"""Proposals are valid and new, for every sampler, to the last config of a space."""

from __future__ import annotations

import pytest

from tests.tuner.sample_records import artifact, measurement, ok
from tests.tuner.space.test_space import TILING
from tuner.errors import UserError
from tuner.outcome import Outcome
from tuner.search.proposer import Proposer
from tuner.search.samplers import DEFAULT_SAMPLER, make_sampler, sampler_for, sampler_names
from tuner.space import Knob, Space
from tuner.trial import Trial

FITTING = [name for name in sampler_names() if name != "cmaes"]
"""It wants two ordered knobs that are always there (test_cma_es.py)."""


def cost(config):
    return 100 * config["tile"] + len(config) + (config["form"] == "plain")


@pytest.mark.parametrize("sampler", FITTING)
def test_proposes_every_valid_config_once_and_then_none(sampler):
    proposer = Proposer(TILING, sampler, seed=3)
    proposed = []
    while (proposal := proposer.ask()) is not None:
        proposed.append(proposal.config)
        proposer.tell(proposal, Outcome.OK, cost(proposal.config))
    assert len(proposed) == len(set(proposed))
    assert set(proposed) == set(TILING)


@pytest.mark.parametrize("sampler", FITTING)
def test_the_same_seed_gives_the_same_proposals(sampler):
    runs = []
    for _ in range(2):
        proposer = Proposer(TILING, sampler, seed=11)
        run = []
        for _ in range(15):
            proposal = proposer.ask()
            run.append(proposal.config)
            proposer.tell(proposal, Outcome.OK, cost(proposal.config))
        runs.append(run)
    assert runs[0] == runs[1]


@pytest.mark.parametrize("sampler", FITTING)
def test_several_in_flight_do_not_repeat(sampler):
    proposer = Proposer(TILING, sampler, seed=0)
    waiting = [proposer.ask() for _ in range(6)]
    assert len({p.config for p in waiting}) == 6


@pytest.mark.parametrize("sampler", FITTING)
def test_replayed_trials_are_known_to_the_study_and_not_proposed_again(sampler):
    configs = list(TILING)[::2]
    trials = [Trial(n, c, "test", Outcome.TIMEOUT) for n, c in enumerate(configs)]
    proposer = Proposer(TILING, sampler, seed=5)
    proposer.replay(trials)
    assert len(proposer.study.get_trials()) == len(configs)
    rest = set()
    while (proposal := proposer.ask()) is not None:
        rest.add(proposal.config)
        proposer.tell(proposal, Outcome.OK, cost(proposal.config))
    assert rest == set(TILING) - set(configs)


GOALS = ("cycles", "code_bytes")
SEVERAL = ("tpe", "nsga2", "random", "brute")


@pytest.mark.parametrize("sampler", SEVERAL)
def test_searches_for_several_goals_and_repeats_with_the_seed(sampler):
    runs = []
    for _ in range(2):
        proposer = Proposer(TILING, sampler_for(sampler, GOALS), seed=2, goals=GOALS)
        run = []
        for number in range(len(list(TILING))):
            proposal = proposer.ask()
            run.append(proposal.config)
            figures = (cost(proposal.config), 1000 - cost(proposal.config))
            proposer.tell(proposal, Outcome.OK, *(figures if number % 5 else (None, 7)))
        runs.append(run)
        assert proposer.ask() is None
        told = [trial.state.name for trial in proposer.study.get_trials()]
        assert told.count("COMPLETE") == len(run) - (len(run) + 4) // 5
    assert runs[0] == runs[1]


@pytest.mark.parametrize("sampler", [name for name in sampler_names() if name not in SEVERAL])
def test_a_sampler_for_one_goal_says_which_can_do_several(sampler):
    assert sampler_for(sampler, ["cycles"]) == sampler
    with pytest.raises(UserError) as caught:
        sampler_for(sampler, GOALS)
    assert set(caught.value.accepted.split(", ")) >= set(SEVERAL)


def test_the_usual_sampler_can_do_what_is_asked():
    assert sampler_for(None, ["cycles"]) == DEFAULT_SAMPLER
    assert sampler_for(sampler_for(None, GOALS), GOALS)


def test_a_genetic_search_goes_on_from_what_earlier_sessions_found():
    """Told of a whole generation, it breeds the next one."""
    square = Space("square", tuple(Knob(name, tuple(range(9)), name) for name in "ab"))
    trials = [
        ok(n, artifact(n), config=config, measurement=measurement(1000 - n))
        for n, config in enumerate(square)
        if n % 2
    ]
    proposer = Proposer(square, "nsga2", seed=4, goals=GOALS)
    proposer.replay(trials)
    assert proposer.ask() is not None
    notes = proposer.study.get_trials()[-1].system_attrs
    assert [note for key, note in notes.items() if key.endswith(":generation")] == [1]


def test_failures_feed_back():
    """Told that every ``vrmpy`` fails, TPE comes to propose it less often than chance would."""
    wide = Space(
        "wide",
        (
            Knob("rows", tuple(range(1, 17)), "rows"),
            Knob("columns", tuple(range(1, 17)), "columns"),
            Knob("form", ("plain", "vrmpy"), "form"),
        ),
    )
    proposer = Proposer(wide, "tpe", seed=1)
    late = []
    for number in range(80):
        proposal = proposer.ask()
        fails = proposal.config["form"] == "vrmpy"
        outcome = Outcome.WRONG_OUTPUT if fails else Outcome.OK
        proposer.tell(proposal, outcome, None if fails else 100 + proposal.config["rows"])
        if number >= 40:
            late.append(fails)
    assert sum(late) < 14  # chance: 20 of 40


def test_an_unknown_sampler_is_refused_by_name():
    with pytest.raises(
        UserError, match=r"unknown sampler 'tpa'.*tpe, random, surrogate.*mean.*tpe"
    ):
        make_sampler("tpa", TILING, 0)
