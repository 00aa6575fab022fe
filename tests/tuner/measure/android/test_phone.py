"""A phone as a device, over the real adb server and the real adbd; its DSP is emulated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.phones import Fault
from tests.rig.phones import Phone as EmulatedPhone
from tests.tuner.measure.android.phones import outcomes, phone_device, run, task
from tuner.conformance.candidates import artifact_of, scale_problem
from tuner.conformance.patience import PATIENCE_S, until
from tuner.errors import DeviceError
from tuner.measure.android.call import Caller
from tuner.measure.android.phone import Phone
from tuner.measure.device import Bundle, BundleEntry, Limits, Sampled
from tuner.measure.farm.health import examine
from tuner.measure.farm.roster import DeviceState, Enrolment, enrolled

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair(private_state: None) -> Iterator[tuple[Phone, EmulatedPhone]]:
    with phone_device() as both:
        yield both


@pytest.fixture
def device(pair: tuple[Phone, EmulatedPhone]) -> Phone:
    return pair[0]


@pytest.fixture
def emulated(pair: tuple[Phone, EmulatedPhone]) -> Iterator[EmulatedPhone]:
    yield pair[1]
    pair[1].ok()
    recovered(pair[0])


def recovered(device: Phone) -> None:
    """Cleaned, as the farm does after a fault; adbd may need a moment."""

    def cleaned() -> bool:
        try:
            device.clean()
        except DeviceError:
            return False
        return True

    until(cleaned)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many turns each call of the phone's tool had."""
    seen: list[int] = []
    call = Caller.call

    async def counted(self, server, turns, task_s):  # type: ignore[no-untyped-def]
        seen.append(len(turns))
        return await call(self, server, turns, task_s)

    monkeypatch.setattr(Caller, "call", counted)
    return seen


@pytest.mark.path("an emulated phone")
def test_candidates_of_several_problems_travel_together(device: Phone, calls: list[int]) -> None:
    batch = [task(), task(n=512), task("WRONG_BYTE", n=512), task(n=1000), task()]
    results = device.run(Bundle(batch, task(n=300)))
    assert outcomes(results) == ["ok", "ok", "wrong_output", "ok", "ok"]
    cycles = [found.measurement.cycles for found in results if isinstance(found, Sampled)]
    assert cycles[0] == cycles[3] < cycles[1] < cycles[2]
    assert calls == [11]


def test_bad_candidates_lose_themselves_only(device: Phone, calls: list[int]) -> None:
    behaviours = {
        "WELL": "ok",
        "WRONG_BYTE": "wrong_output",
        "SLOW": "ok",
        "CHANGES_ITS_INPUT": "wrong_output",
        "PAST_THE_END": "wrong_output",
        "NOTHING_AT_ALL": "wrong_output",
        "EXITS": "infeasible",
        "REPORTS_AN_ERROR": "run_error",
        "TAKES_TOO_MUCH_MEMORY": "run_error",
        "TAKES_TOO_MUCH_VTCM": "infeasible",
        "USES_HEAP_AND_VTCM": "ok",
        "NULL_STORE": "run_error",
        "HANGS": "timeout",
    }
    assert run(device, *behaviours, "WELL") == [*behaviours.values(), "ok"]
    assert len(calls) <= 4


@pytest.mark.parametrize("place", ["heap", "vtcm"])
def test_what_one_candidate_leaves_does_not_help_the_next(device: Phone, place: str) -> None:
    problem = scale_problem()
    source = Path(__file__).parents[1] / "sources/leftovers.c"

    def candidate(flag: str) -> BundleEntry:
        flags = (f"-DENTRY={problem.symbol}", "-fPIC", flag)
        return BundleEntry(problem, artifact_of(source, problem.symbol, flags))

    batch = [candidate("-DLEAVES"), candidate(f"-DTAKES={place}")]
    assert outcomes(device.run(Bundle(batch))) == ["ok", "wrong_output"]


def test_a_phone_that_computes_wrong_is_found_by_the_reference(
    device: Phone, emulated: EmulatedPhone
) -> None:
    emulated.set(Fault.WRONG_RESULT, flip_from_bytes=4096)  # in what candidates leave
    with pytest.raises(DeviceError, match="reference"):
        run(device, "WELL", "WELL")
    emulated.set(Fault.WRONG_RESULT)  # in the driver's records as well
    with pytest.raises(DeviceError, match="damaged"):
        run(device, "WELL", "WELL")


@pytest.mark.parametrize(
    ("fault", "adjusted"),
    [(Fault.TRUNCATED, {}), (Fault.FULL_DISK, {"leave_bytes": 150_000}), (Fault.ADBD_KILLED, {})],
)
def test_a_fault_of_the_phone_is_never_a_result(
    device: Phone, emulated: EmulatedPhone, fault: Fault, adjusted: dict[str, int]
) -> None:
    """Status 0 with truncated output among them."""
    emulated.set(fault, **adjusted)
    with pytest.raises(DeviceError):
        run(device, "WELL", "WELL")
    emulated.ok()
    recovered(device)
    assert run(device, "WELL", "WRONG_BYTE") == ["ok", "wrong_output"]


def test_a_phone_without_room_for_a_batch_fails_its_check_though_a_small_one_fits(
    device: Phone, emulated: EmulatedPhone
) -> None:
    """Also where a job's files lay there as the disk filled up, and were removed since."""
    assert run(device, "WELL") == ["ok"]
    emulated.set(Fault.FULL_DISK, leave_bytes=31 << 20)
    record = enrolled(Enrolment("emu", "phone", "hardware"), now=0.0)
    found = examine(device, record, task(), Limits())
    assert found.state is DeviceState.SUSPECT
    assert "free, a bundle may need 32.0 MiB" in found.reason
    emulated.ok()
    found = examine(device, record, task(), Limits())
    assert found.state is DeviceState.READY
    assert found.checked.details["free space"] == "64 MiB"
    assert found.checked.details["clocks"] == "highest clocks granted, power for HVX granted"


def test_a_cached_problem_that_was_changed_on_the_phone_is_pushed_again(
    device: Phone, emulated: EmulatedPhone
) -> None:
    assert run(device, "WELL") == ["ok"]
    [cached] = [path for path in emulated.files() if "/problems/" in path]
    device._shell(f"printf x | dd of={cached} bs=1 seek=70000 conv=notrunc", PATIENCE_S)
    assert run(device, "WELL") == ["ok"]
