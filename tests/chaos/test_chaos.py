"""The promises of a lab hold while it is broken.

How soon jobs go on is measured by ``make chaos``; here a busy machine may be late.
"""

from __future__ import annotations

import warnings

import pytest

from tests.chaos.__main__ import run_alone
from tests.chaos.lab import missing

EVERY_KIND = 44
"""A seed with every kind of fault, and at least one at each role; both conductors are killed."""


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(EVERY_KIND, marks=pytest.mark.slow),
        *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3)),
    ],
)
def test_every_job_ends_and_nothing_is_lost_doubled_or_stale(seed: int) -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    found = run_alone(seed)
    assert found.wrong == []
    assert (found.lost, found.doubled, found.stale) == (0, 0, 0)
    for line in found.late:
        warnings.warn(line, stacklevel=1)
