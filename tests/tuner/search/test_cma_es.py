"""CMA-ES: over the ordered knobs, refused where there are too few or its package is missing."""

from __future__ import annotations

import pytest

from tests.tuner.search.test_model_samplers import LARGE, bowl
from tuner.records.outcome import Outcome
from tuner.search.proposer import Proposer


@pytest.mark.slow
def test_closes_in_on_the_bottom():
    proposer = Proposer(LARGE, "cmaes", 1)
    found = []
    for _ in range(150):
        proposal = proposer.ask()
        found.append(bowl(proposal.config))
        proposer.tell(proposal, Outcome.OK, found[-1])
    assert min(found[-30:]) < 0.8 * min(found[:30])
