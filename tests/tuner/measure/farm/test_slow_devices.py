"""Devices that are slow, for a time or from the first: what they measured does not count."""

from __future__ import annotations

import re

from tests.rig.stand_in_devices import GOLD_CYCLES, Script, StandInFarm
from tests.tuner.measure.farm.test_farm_measurer import GOOD, cycles, measured, measuring, wait_for
from tuner.measure.farm.roster import DeviceState, MemoryRoster


def test_slow_results_are_measured_again_where_it_is_fast() -> None:
    rig = StandInFarm({"bad": Script(), "good": Script()})
    roster = MemoryRoster()
    with measuring(rig, roster=roster) as measurer:
        measured(measurer, GOOD[:8])
        rig.devices["bad"].script.slow = 1.5
        assert cycles(measured(measurer, GOOD)) == [*map(int, GOOD)]
    told = [event.reason for event in roster.events("bad")]
    assert any(reason.startswith("throttled: ") for reason in told)


def test_a_device_that_was_slow_from_the_first_is_found_out_by_those_like_it() -> None:
    rig = StandInFarm({"bad": Script(slow=1.3), "good": Script(), "fine": Script(noise=0.08)})
    roster = MemoryRoster()
    with measuring(rig, roster=roster) as measurer:
        measurer.fingerprint()
        assert roster.device("bad").gold_cycles == 1.3 * GOLD_CYCLES
        found = cycles(measured(measurer, GOOD))
        reason = wait_for(roster, "bad", DeviceState.QUARANTINED)
    assert all(cycles <= 1.08 * int(true) for true, cycles in zip(GOOD, found, strict=True))
    assert re.search(r"slow: .* takes 1\.\d\d times as long as on others like it", reason)
    assert roster.device("bad").trials == 0
