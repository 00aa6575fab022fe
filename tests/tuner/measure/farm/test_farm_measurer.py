"""The farm shares work out, loses and doubles nothing, and believes no bad device.

Over stand-ins for devices, whose faults come from a seed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.rig.stand_in_devices import (
    SHORT,
    Script,
    StandInFarm,
    candidate,
    gold,
    problem,
)
from tuner.conformance.patience import PATIENCE_S, until
from tuner.errors import CandidateError, DeviceError, HvxtuneError, ToolchainError, UserError
from tuner.measure.farm import driver
from tuner.measure.farm.measurer import FarmMeasurer
from tuner.measure.farm.roster import DeviceState, MemoryRoster, Roster
from tuner.measure.measurer import DEVICE_ATTEMPTS, DeviceAccess, Timed
from tuner.problem.contract import Contract

GOOD = [f"{cycles}" for cycles in range(2000, 2060)]


@contextmanager
def measuring(
    rig: StandInFarm, on: str = "", roster: Roster | None = None
) -> Iterator[FarmMeasurer]:
    with FarmMeasurer(
        access=DeviceAccess(on, roster, "test"),
        farm=rig.farm,
        open_device=rig.open,
        make_gold=gold,
    ) as measurer:
        yield measurer


def measured(measurer: FarmMeasurer, texts: list[str], threads: int = 12) -> list[object]:
    """What each object comes to: its measurement, or the error."""

    def one(text: str) -> object:
        try:
            return measurer.measure(problem(), candidate(text))
        except HvxtuneError as error:
            return error

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, texts))


def cycles(found: list[object]) -> list[int | str]:
    """Cycles, or outcome or kind of error."""
    shown: list[int | str] = []
    for one in found:
        if isinstance(one, Timed):
            shown.append(one.measurement.cycles)
        elif isinstance(one, CandidateError):
            shown.append(one.outcome.value)
        else:
            assert isinstance(one, HvxtuneError)
            shown.append(one.kind)
    return shown


def wait_for(roster: Roster, name: str, state: DeviceState) -> str:
    """The reason, once the device is in the state."""
    until(lambda: roster.device(name).state is state)
    return roster.device(name).reason


def test_every_candidate_comes_home_once_with_its_own_result() -> None:
    rig = StandInFarm({name: Script(task_s=0.01) for name in "abc"})  # the others take what is left
    texts = [*GOOD, "3000 wrong_output", "3001 infeasible", "3002 run_error", "3003 timeout"]
    with measuring(rig) as measurer:
        found = measured(measurer, texts)
    assert cycles(found) == [*map(int, GOOD), "wrong_output", "infeasible", "run_error", "timeout"]
    for text in GOOD:
        assert sum(device.runs[text] for device in rig.devices.values()) == 1
    for one in found[: len(GOOD)]:
        assert isinstance(one, Timed)
        assert one.measurement.device in rig.devices
        assert len(one.measurement.samples) == SHORT.repeats
    assert all(device.calls > 3 for device in rig.devices.values()), "one of them did it all"
    assert max(device.most_at_once for device in rig.devices.values()) > 1, "nothing was bundled"


def test_a_bad_verdict_needs_a_second_device_unless_the_object_alone_decides() -> None:
    rig = StandInFarm({"a": Script(), "b": Script()})
    with measuring(rig) as measurer:
        measured(measurer, ["3000 wrong_output", "3001 infeasible"])
    runs = {name: device.runs for name, device in rig.devices.items()}
    assert [runs[name]["3000 wrong_output"] for name in runs] == [1, 1]
    assert sum(runs[name]["3001 infeasible"] for name in runs) == 1


def test_what_may_become_the_best_is_confirmed_where_the_contract_leaves_shapes_open() -> None:
    rig = StandInFarm({"a": Script(), "b": Script()})
    runs = {name: device.runs for name, device in rig.devices.items()}
    narrow = candidate("2000 far wrong_output")
    with measuring(rig) as measurer:
        measurer.confirm(problem(Contract.STATIC), narrow)
        assert not any(runs.values()), "no shape is far"
        assert measurer.measure(problem(Contract.NONE), narrow).measurement.cycles == 2000
        measurer.confirm(problem(Contract.NONE), candidate("2000"))
        with pytest.raises(CandidateError, match="it is bad"):
            measurer.confirm(problem(Contract.NONE), narrow)
    assert all(one["2000 far wrong_output"] for one in runs.values()), "no second opinion"


def test_a_device_that_condemns_good_candidates_is_found_out() -> None:
    rig = StandInFarm({"bad": Script(condemns=0.5), "good": Script(), "fine": Script()})
    roster = MemoryRoster()
    with measuring(rig, roster=roster) as measurer:
        # How much of one round a device takes is the threads' matter: as many as show it.
        for _ in range(100):
            assert cycles(measured(measurer, GOOD)) == [*map(int, GOOD)]
            if roster.device("bad").state is DeviceState.QUARANTINED:
                break
        reason = wait_for(roster, "bad", DeviceState.QUARANTINED)
    assert "faults in its latest" in reason
    assert "wrong_output for a candidate that" in reason
    assert roster.device("good").state is DeviceState.READY
    assert roster.device("good").faults == 0


@pytest.mark.parametrize("fault", [Script(breaks=0.7), Script(breaks=0.4, condemns=0.3)])
def test_transport_faults_are_tried_elsewhere(fault: Script) -> None:
    rig = StandInFarm({"bad": replace(fault), "good": Script(), "fine": Script()})
    roster = MemoryRoster()
    usual = {"new: not checked yet", "passed its check"}
    with measuring(rig, roster=roster) as measurer:
        for _ in range(100):
            assert cycles(measured(measurer, GOOD)) == [*map(int, GOOD)]
            if told := {event.reason for event in roster.events("bad")} - usual:
                break
    assert told, "nothing went wrong"
    assert roster.device("good").faults == 0


def test_what_is_not_the_devices_fault_is_done_again_and_puts_nobody_out() -> None:
    rig = StandInFarm({"a": Script(excuses_every=3), "b": Script(excuses_every=2)})
    roster = MemoryRoster()
    with measuring(rig, roster=roster) as measurer:
        assert cycles(measured(measurer, GOOD)) == [*map(int, GOOD)]
    told = [event for name in rig.devices for event in roster.events(name)]
    assert any(event.reason == "the server ended" for event in told)
    assert DeviceState.QUARANTINED not in {event.after for event in told}


def test_a_call_that_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_GRACE_S", 0.0)
    limits = replace(SHORT, task_s=0.3)
    rig = StandInFarm({"a": Script(), "b": Script()}, limits=limits)
    with measuring(rig) as measurer:
        measured(measurer, GOOD[:4])
        rig.devices["b"].script.hangs = True
        assert cycles(measured(measurer, GOOD)) == [*map(int, GOOD)]


def test_a_candidate_no_device_can_run_is_a_device_error_after_so_many_tries() -> None:
    rig = StandInFarm({"a": Script(), "b": Script(), "c": Script()})
    with measuring(rig) as measurer:
        measured(measurer, GOOD[:4])
        for device in rig.devices.values():
            device.script.refuses = 1.0
        with pytest.raises(DeviceError) as caught:
            measurer.measure(problem(), candidate("2999"))
    assert caught.value.attempts == DEVICE_ATTEMPTS
    assert sum(device.runs["2999"] for device in rig.devices.values()) == DEVICE_ATTEMPTS
    assert [device.runs["2999"] for device in rig.devices.values()] == [1, 1, 1], "elsewhere"


def test_without_any_device_left_it_stops_and_says_why() -> None:
    rig = StandInFarm({"a": Script(), "b": Script()})
    roster = MemoryRoster()
    with measuring(rig, roster=roster) as measurer:
        measured(measurer, GOOD[:4])
        roster.quarantine("a", "smells of smoke")
        roster.quarantine("b", "fell down")
        with pytest.raises(ToolchainError, match=r"a is quarantined \(smells of smoke\)") as caught:
            measurer.measure(problem(), candidate("2000"))
        assert "hvxtune farm release" in caught.value.next_step
        roster.release("a", "mended")
        assert cycles(measured(measurer, ["2000"])) == [2000]


def test_what_was_measured_under_a_lost_lease_is_measured_again() -> None:
    under_way = threading.Event()
    rig = StandInFarm({"a": Script(held=under_way), "b": Script()})
    roster = MemoryRoster()
    with measuring(rig, on="a", roster=roster) as measurer, ThreadPoolExecutor(1) as pool:
        measurer.fingerprint()
        pending = pool.submit(measured, measurer, ["2000"])
        until(lambda: rig.devices["a"].runs["2000"] == 1)
        roster.quarantine("a", "no")
        roster.release("a", "yes")
        under_way.set()
        assert cycles(pending.result(PATIENCE_S)) == [2000]
    assert rig.devices["a"].runs["2000"] == 2
    assert roster.device("a").trials == 1


def test_devices_that_differ_do_not_serve_one_job() -> None:
    rig = StandInFarm({"a": Script(), "b": Script(fingerprint={"build": "2"}), "sim": Script()})
    several = r"several fidelities \(hardware: a, b; model: sim\)"
    with measuring(rig) as measurer, pytest.raises(UserError, match=several):
        measurer.measure(problem(), candidate("2000"))
    with measuring(rig, on="phone") as measurer, pytest.raises(UserError, match="differ in build"):
        measurer.fingerprint()
    with measuring(rig, on="a") as measurer:
        assert measurer.fingerprint() == {"build": "1"}
    with pytest.raises(UserError, match="cache 'cold'"):
        FarmMeasurer(cache="cold", farm=rig.farm)
