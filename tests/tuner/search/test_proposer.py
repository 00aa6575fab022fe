"""Proposals are valid and new, for every sampler, to the last config of a space."""

from __future__ import annotations

import pytest

from tests.tuner.space.test_space import TILING
from tuner.errors import UserError
from tuner.outcome import Outcome
from tuner.search.proposer import Proposer
from tuner.search.samplers import make_sampler, sampler_names
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
