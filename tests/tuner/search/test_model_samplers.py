"""Samplers that choose among listed configs, in Optuna studies of their own and on large spaces."""

from __future__ import annotations

import optuna
import pytest

from tests.tuner.space.test_space import TILING
from tuner.records.outcome import Outcome
from tuner.search import encoding
from tuner.search.proposer import Proposer
from tuner.search.samplers import SpaceExhaustedError, find_sampler
from tuner.search.samplers.points import Points
from tuner.space import Config, Constraint, Knob, Space

LARGE = Space(
    "large",
    (
        *(Knob(f"k{i}", tuple(range(1, 9)), "a size") for i in range(6)),
        Knob("form", ("a", "b", "c"), "a form"),
        Knob("extra", (1, 2, 3), "only for one form", when="form == 'c'"),
    ),
    (Constraint("k0 + k1 <= 12", "together they do not fit"),),
)


NAMES = [f"k{i}" for i in range(6)]


def bowl(config):
    """Least at k = 3 everywhere, form ``c``, extra 2; a product, as times are."""
    cost = 1000.0
    for name, value in config.items():
        if isinstance(value, int):
            cost *= 1 + 0.1 * abs(value - (2 if name == "extra" else 3))
    return round(cost * (1 if config["form"] == "c" else 1.5))


def least(sampler, trials, fails=lambda config: False, seed=0):
    """The best of ``bowl``, and how many trials failed."""
    proposer = Proposer(LARGE, sampler, seed)
    best, failed = float("inf"), 0
    for _ in range(trials):
        proposal = proposer.ask()
        if fails(proposal.config):
            failed += 1
            proposer.tell(proposal, Outcome.WRONG_OUTPUT, None)
        else:
            best = min(best, bowl(proposal.config))
            proposer.tell(proposal, Outcome.OK, bowl(proposal.config))
    return best, failed


def test_works_in_any_study_and_never_repeats():
    study = optuna.create_study(sampler=find_sampler("surrogate").make(TILING, 0))
    seen = []
    for _ in range(len(list(TILING))):
        trial = study.ask()
        values = encoding.suggest(TILING, trial)
        assert TILING.violation(values) is None
        seen.append(Config(values))
        study.tell(trial, float(sum(v for v in values.values() if isinstance(v, int))))
    assert set(seen) == set(TILING)
    trial = study.ask()
    with pytest.raises(SpaceExhaustedError):
        encoding.suggest(TILING, trial)


def test_the_model_looks_elsewhere_before_it_follows_what_it_was_given():
    """What other searches of a set hand on lies close together."""
    proposer = Proposer(LARGE, "surrogate", 0)
    given = [Config({**dict.fromkeys(NAMES, 8), "k0": k, "form": "a"}) for k in range(1, 5)]
    for config in given:
        proposer.tell(proposer.propose(config), Outcome.OK, bowl(config))
    for _ in range(2):
        asked = proposer.ask()
        assert min(sum(asked.config[n] != one[n] for n in one) for one in given) >= 5
        proposer.tell(asked, Outcome.OK, bowl(asked.config))


def test_the_model_is_asked_although_its_proposals_are_replaced():
    """As those of an alternative that has had its share are: the others are not its own."""
    proposer = Proposer(LARGE, "surrogate", 0)
    fixed = dict.fromkeys(NAMES, 8)
    given = [
        Config({**fixed, "k0": a, "k1": b, "form": "a"}) for a in (1, 2, 3, 4) for b in range(1, 7)
    ]
    for config in given:
        proposer.tell(proposer.propose(config), Outcome.OK, bowl(config))
    asked = proposer.ask()
    assert min(sum(asked.config[n] != one[n] for n in one) for one in given) < 4


@pytest.mark.slow
def test_the_model_finds_the_bottom_of_a_space_too_large_to_list():
    """Of 600,000 configs; chance comes to about three times the least."""
    assert least("surrogate", 80)[0] <= 1.1 * 1000
    assert least("random", 80)[0] > 1.5 * 1000


@pytest.mark.slow
def test_the_model_learns_what_fails():
    _, failed = least("surrogate", 80, fails=lambda c: c["form"] == "c")
    assert failed < 14  # chance: 27 of 80


def test_points_of_a_small_space_are_all_of_it_and_of_a_large_one_grow():
    small, large = Points(TILING, 0), Points(LARGE, 0)
    assert small.complete
    assert {small.config(row) for row in range(len(small.rows))} == set(TILING)
    assert not large.complete
    before = len(large.rows)
    best = large.row_of(Config({**{f"k{i}": 3 for i in range(6)}, "form": "c", "extra": 2}))
    large.grow([best])
    assert len(large.rows) > before + 40
    assert all(LARGE.violation(large.config(row)) is None for row in range(len(large.rows)))
