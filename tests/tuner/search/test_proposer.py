"""Proposals are valid and new, for every sampler, to the last config of a space."""

from __future__ import annotations

import pytest
from optuna.trial import TrialState

from tuner.conformance.samplers import SPACE, SamplerConformance
from tuner.errors import UserError
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.proposer import Proposer
from tuner.search.samplers import sampler_for, sampler_names
from tuner.space import Knob, Space

OBJECTIVES = ("cycles", "code_bytes")
SEVERAL = ("tpe", "random", "brute")


class TestSamplers(SamplerConformance):
    @pytest.fixture(autouse=True, params=sampler_names())
    def _each(self, request, monkeypatch):
        monkeypatch.setattr(TestSamplers, "name", request.param, raising=False)


@pytest.mark.parametrize("sampler", [name for name in sampler_names() if name not in SEVERAL])
def test_a_sampler_for_one_goal_says_which_can_do_several(sampler):
    assert sampler_for(sampler, ["cycles"]) == sampler
    with pytest.raises(UserError) as caught:
        sampler_for(sampler, OBJECTIVES)
    assert set(caught.value.accepted.split(", ")) >= set(SEVERAL)


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


def test_what_a_machine_failed_at_is_no_news_for_the_search():
    """Neither when it happens nor when the job is resumed: as if it had not been tried."""
    states = {}
    for outcome in (Outcome.COMPILER_CRASH, Outcome.DEVICE_ERROR):
        proposer = Proposer(SPACE, "tpe", seed=0)
        proposal = proposer.ask()
        proposer.tell(proposal, outcome)
        again = Proposer(SPACE, "tpe", seed=0)
        again.replay([Trial(0, proposal.config, "tpe", outcome)])
        assert again.has_seen(proposal.config)
        states[outcome] = {p.study.trials[0].state for p in (proposer, again)}
    assert states[Outcome.COMPILER_CRASH] == {TrialState.PRUNED}
    assert states[Outcome.DEVICE_ERROR] == {TrialState.FAIL}
