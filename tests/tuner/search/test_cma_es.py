"""CMA-ES: over the ordered knobs, refused where there are too few or its package is missing."""

from __future__ import annotations

import pytest

from tests.tuner.search.test_model_samplers import LARGE, bowl
from tests.tuner.space.test_space import TILING
from tuner.errors import UserError
from tuner.records.outcome import Outcome
from tuner.search.proposer import Proposer
from tuner.search.samplers import find_sampler, require_fits


@pytest.mark.slow
def test_closes_in_on_the_bottom():
    proposer = Proposer(LARGE, "cmaes", 1)
    found = []
    for _ in range(150):
        proposal = proposer.ask()
        found.append(bowl(proposal.config))
        proposer.tell(proposal, Outcome.OK, found[-1])
    assert min(found[-30:]) < 0.8 * min(found[:30])


def test_a_space_with_one_ordered_knob_is_refused_before_it_is_searched():
    with pytest.raises(UserError, match="cmaes does not fit example: of its knobs 1") as refusal:
        require_fits("cmaes", TILING)
    assert "another sampler" in refusal.value.next_step
    with pytest.raises(UserError):
        find_sampler("cmaes").make(TILING, 0)
