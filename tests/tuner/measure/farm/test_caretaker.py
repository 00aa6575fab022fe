"""A farm without a job is looked after: what is due is checked, who was lost comes back."""

from __future__ import annotations

import threading
import time

import pytest

from tests.rig.stand_in_devices import Script, StandInFarm, gold
from tuner.conformance.patience import until
from tuner.measure.farm import health as module
from tuner.measure.farm.health import Caretaker
from tuner.measure.farm.roster import DeviceState, MemoryRoster


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)


def test_devices_are_checked_without_a_job_and_the_lost_come_back() -> None:
    scripts = {"good": Script(), "lost": Script(silent=True), "bad": Script(wrong=True)}
    rig = StandInFarm(scripts)
    roster = MemoryRoster()
    caretaker = Caretaker(rig.farm, roster, "test", open_device=rig.open, make_gold=gold)
    leave = threading.Event()
    thread = threading.Thread(target=caretaker.run, args=(leave,))
    thread.start()
    try:
        wait(roster, good="ready", lost="offline", bad="quarantined")
        scripts["lost"].silent = False
        wait(roster, lost="ready")
        checks = rig.devices["bad"].calls
        time.sleep(0.1)
        assert rig.devices["bad"].calls == checks, "nobody touches it until it is released"
        scripts["bad"].wrong = False
        roster.release("bad", "mended")
        wait(roster, bad="ready")
    finally:
        leave.set()
        thread.join()


def wait(roster: MemoryRoster, **states: str) -> None:
    wanted = {name: DeviceState(state) for name, state in states.items()}
    until(lambda: {r.name: r.state for r in roster.devices() if r.name in wanted} == wanted)
