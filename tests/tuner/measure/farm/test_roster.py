"""The roster that keeps everything in the process."""

from __future__ import annotations

import pytest

from tests.tuner.measure.farm.roster_conformance import Clock, RosterConformance
from tuner.measure.farm.roster import MemoryRoster


class TestMemoryRoster(RosterConformance):
    @pytest.fixture
    def roster(self, clock: Clock) -> MemoryRoster:
        return MemoryRoster(clock)
