"""A portfolio's search spends little on generators that are behind, and as much as it likes on the
one that is ahead."""

from __future__ import annotations

from collections import Counter

import pytest

from tuner.codegen import space_of, starts_of
from tuner.codegen.portfolio import GENERATOR, Portfolio
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.search.proposer import Proposer, Shares
from tuner.space import Config, Constraint, Knob, Space

FEW = Space(
    "test",
    (
        Knob(GENERATOR, ("halide", "halide-clang", "c-autovec"), "what makes the code"),
        Knob("tile", (1, 2, 4, 8), "tile", when=f"{GENERATOR} in ('halide', 'halide-clang')"),
        Knob("rows", (1, 2, 4), "rows", when=f"{GENERATOR} in ('halide', 'halide-clang')"),
        Knob("switch", ("a", "b", "c", "d"), "switch", when=f"{GENERATOR} == 'halide-clang'"),
        Knob("form", ("plain", "quads"), "form", when=f"{GENERATOR} == 'c-autovec'"),
    ),
    (Constraint("tile * rows <= 16", "too large"),),
)


def portfolio_without_hvx():
    kernel = find_kernel("rgb_to_gray_u8")
    problem = kernel.problem({}, Contract.STATIC, find_target("hexagon-v66"))
    starts = starts_of("portfolio", kernel, problem)
    return space_of("portfolio", kernel, problem), list(dict.fromkeys(starts.values()))


def searched(space, starts, trials, factor, sampler="random"):
    """The trials of each generator, if its code takes ``factor`` of the cycles of Halide's."""
    proposer = Proposer(space, sampler, seed=1, alternatives=Portfolio.alternatives)
    taken = Counter()
    for number in range(trials):
        proposal = proposer.propose(starts[number]) if number < len(starts) else proposer.ask()
        if proposal is None:
            break
        name = proposal.config[GENERATOR]
        taken[name] += 1
        cycles = 1000 + 10 * sum(len(str(value)) for value in proposal.config.values())
        proposer.tell(proposal, Outcome.OK, int(cycles * factor.get(name, 1.0)))
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["surrogate"])
def test_one_that_is_behind_gets_at_most_a_quarter(sampler):
    space, starts = portfolio_without_hvx()
    taken = searched(space, starts, 30, {"halide-clang": 1.1, "c-autovec": 2.0}, sampler)
    assert taken["halide-clang"] <= 8
    assert taken["c-autovec"] <= 2
    assert taken.total() == 30


@pytest.mark.slow
def test_one_that_is_ahead_gets_what_the_sampler_wants():
    space, starts = portfolio_without_hvx()
    taken = searched(space, starts, 40, {"halide-clang": 0.8, "c-autovec": 3.0}, "surrogate")
    assert taken["halide-clang"] > 20, "twice the share of one that is behind"


def test_one_without_a_result_is_not_tried_for_ever():
    shares = Shares(Portfolio.alternatives)
    for _ in range(9):
        shares.proposed(Config({GENERATOR: "halide", "tile": 1, "rows": 1}))
    shares.learned(Config({GENERATOR: "halide", "tile": 1, "rows": 1}), 100.0)
    form = Config({GENERATOR: "c-autovec", "form": "plain"})
    for _ in range(3):
        assert shares.allows(form)
        shares.proposed(form)
    assert not shares.allows(form)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["surrogate", "tpe"])
def test_in_the_end_every_config_is_proposed_all_the_same(sampler):
    """A limit on shares ends no search early."""
    taken = searched(FEW, [], 1000, {"halide-clang": 2.0, "c-autovec": 2.0}, sampler)
    assert taken == Counter({"halide": 11, "halide-clang": 44, "c-autovec": 2})


def test_a_schedule_that_is_best_by_an_alternative_is_tried_by_the_main_generator_too():
    """Without that, one that is a little better on the first schedule has all trials of others."""
    proposer = Proposer(FEW, "random", seed=0, alternatives=Portfolio.alternatives)

    def told(config, cycles):
        proposer.tell(proposer.propose(config), Outcome.OK, cycles)

    def by_clang(tile, switch="a"):
        return Config({GENERATOR: "halide-clang", "tile": tile, "rows": 2, "switch": switch})

    def by_halide(tile):
        return Config({GENERATOR: "halide", "tile": tile, "rows": 2})

    told(by_halide(1), 1100)
    told(by_clang(1), 1000)
    assert proposer.ask().config != by_halide(1), "it was tried"
    told(by_clang(4), 700)
    assert proposer.ask().config == by_halide(4)
    told(by_clang(4, "b"), 600)
    assert proposer.ask().config != by_halide(4)
    told(by_clang(8), 590)
    assert proposer.ask().config != by_halide(8), "no news"
    told(Config({GENERATOR: "c-autovec", "form": "plain"}), 100)
    assert proposer.ask() is not None, "no schedule to try"
