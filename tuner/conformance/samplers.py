"""The conformance suite of samplers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.proposer import Proposal, Proposer
from tuner.search.samplers import find_sampler
from tuner.space import Config, Constraint, Knob, Space

SPACE = Space(
    kernel="example",
    knobs=(
        Knob("tile", (1, 2, 4), "rows of a tile"),
        Knob("vectors", (1, 2), "native vectors in one iteration"),
        Knob("form", ("plain", "vrmpy"), "reduction form"),
        Knob("unroll", (1, 2), "unrolled steps", when="tile > 1"),
        Knob("fold", ("off", "on"), "fold storage", when="unroll > 1 and form == 'vrmpy'"),
    ),
    constraints=(
        Constraint("tile % unroll == 0", "the unrolled steps must divide the tile"),
        Constraint("form != 'vrmpy' or tile < 4", "wide tiles spill registers"),
    ),
)
"""Small enough to be listed; with conditions, constraints, and knobs of both kinds."""
_OBJECTIVES = ("cycles", "code_bytes")


def cost(config: Config) -> int:
    """A made-up figure for a config of :data:`SPACE`: whole, positive, with one least value."""
    tile, vectors = config.integer("tile"), config.integer("vectors")
    return 100 * tile + 10 * vectors + len(config) + (config["form"] == "plain")


class SamplerConformance:
    """Inherit it and name the sampler as registered: ``name = "annealing"``."""

    name: ClassVar[str]

    def proposer(self, seed: int = 3, objectives: tuple[str, ...] = ("cycles",)) -> Proposer:
        """A fresh search of :data:`SPACE`."""
        return Proposer(SPACE, self.name, seed, objectives)

    def test_it_fits_the_space(self) -> None:
        find_sampler(self.name).require_fits(SPACE)

    def test_proposes_every_valid_config_once_and_then_none(self) -> None:
        proposer = self.proposer()
        proposed = [one.config for one in _told(proposer)]
        assert len(proposed) == len(set(proposed))
        assert set(proposed) == set(SPACE)

    def test_the_same_seed_gives_the_same_proposals(self) -> None:
        runs = []
        for _ in range(2):
            told = _told(self.proposer(seed=11))
            runs.append([next(told).config for _ in range(15)])
        assert runs[0] == runs[1]

    def test_several_in_flight_do_not_repeat(self) -> None:
        proposer = self.proposer()
        waiting = [proposer.ask() for _ in range(6)]
        assert len({one.config for one in waiting if one is not None}) == 6

    def test_failures_do_not_stop_it(self) -> None:
        proposer = self.proposer()
        proposed = []
        while (proposal := proposer.ask()) is not None:
            proposed.append(proposal.config)
            if proposal.config["form"] == "vrmpy":
                proposer.tell(proposal, Outcome.WRONG_OUTPUT, None)
            else:
                proposer.tell(proposal, Outcome.OK, cost(proposal.config))
        assert set(proposed) == set(SPACE)

    def test_replayed_trials_are_known_to_the_study_and_not_proposed_again(self) -> None:
        configs = list(SPACE)[::2]
        proposer = self.proposer(seed=5)
        ended = (Outcome.TIMEOUT, Outcome.DEVICE_ERROR)
        proposer.replay(Trial(n, c, "test", ended[n % 2]) for n, c in enumerate(configs))
        assert len(proposer.study.get_trials()) == len(configs)
        assert {one.config for one in _told(proposer)} == set(SPACE) - set(configs)

    def test_searches_for_as_many_objectives_as_it_says(self) -> None:
        if not find_sampler(self.name).several_objectives:
            pytest.skip(f"{self.name} searches for one objective")
        runs = []
        for _ in range(2):
            proposer = self.proposer(seed=2, objectives=_OBJECTIVES)
            run: list[Config] = []
            while (proposal := proposer.ask()) is not None:
                figures = (cost(proposal.config), 1000 - cost(proposal.config))
                proposer.tell(proposal, Outcome.OK, *(figures if len(run) % 5 else (None, 7)))
                run.append(proposal.config)
            assert set(run) == set(SPACE)
            states = [trial.state.name for trial in proposer.study.get_trials()]
            assert states.count("COMPLETE") == len(run) - (len(run) + 4) // 5
            runs.append(run)
        assert runs[0] == runs[1]


def _told(proposer: Proposer) -> Iterator[Proposal]:
    """Proposals, each told its cost before the next is asked for."""
    while (proposal := proposer.ask()) is not None:
        yield proposal
        proposer.tell(proposal, Outcome.OK, cost(proposal.config))
