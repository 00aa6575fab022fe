"""Qualcomm's simulator as a device, against a stand-in that runs qemu-hexagon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.stand_in_sdk import make_sdk, trouble
from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.conformance.devices import HASTY_S
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, DeviceError
from tuner.measure.device import (
    Bundle,
    BundleEntry,
    Limits,
    Sampled,
)
from tuner.measure.hexagon_sim.device import HexagonSim, HexagonSimSettings
from tuner.measure.qemu.measurer import QemuMeasurer

pytestmark = pytest.mark.slow
PIC = ("-fPIC",)
CALL_AND_RETURN = 3
"""Packets: QEMU's region begins after the call, an empty candidate returns."""


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    return make_sdk(tmp_path / "sdk")


@pytest.fixture
def device(sdk: Path) -> Iterator[HexagonSim]:
    settings = HexagonSimSettings(name="sdk", root=str(sdk), arch="v66")
    with HexagonSim(settings, "sdk-1", Limits(task_s=PATIENCE_S)) as made:
        yield made


def entry(behaviour: str = "WELL", **more: int) -> BundleEntry:
    problem = scale_problem()
    return BundleEntry(problem, scale_artifact(problem, behaviour, PIC), **more)


def told(result: object) -> str:
    if isinstance(result, CandidateError):
        return result.outcome.value
    return "ok" if isinstance(result, Sampled) else type(result).__name__


def test_a_batch_is_one_process_and_each_gets_its_own_result(device: HexagonSim) -> None:
    bundle = Bundle([entry(), entry("WRONG_BYTE"), entry("USES_HEAP_AND_VTCM"), entry()])
    results = device.run(bundle)
    assert [told(r) for r in results] == ["ok", "wrong_output", "ok", "ok"]
    first, last = results[0], results[3]
    assert isinstance(first, Sampled)
    assert isinstance(last, Sampled)
    assert first.measurement.samples == last.measurement.samples, "it is deterministic"
    assert first.measurement.fidelity == "cycle_accurate"
    assert first.measurement.device == "sdk-1"
    assert first.run_s > 0
    assert device.noticed() == {"PMU": "PCYCLES 1,000"}, "as the stand-in writes it"


def test_the_harness_is_no_part_of_a_candidates_cycles(device: HexagonSim) -> None:
    """The stand-in's clock counts packets, and so does QEMU's plugin, which stops at the harness:
    without its share both come to the same."""
    problems = [scale_problem(h=h, n=n) for h, n in ((1, 8), (4, 500))]
    entries = [BundleEntry(one, scale_artifact(one, "WELL", PIC)) for one in problems]
    found = [result for result in device.run(Bundle(entries)) if isinstance(result, Sampled)]
    told = [one.measurement for one in found]
    assert len({one.overhead_cycles for one in told}) == 1, "the same for all"
    with QemuMeasurer() as qemu:
        for one, measured in zip(entries, told, strict=True):
            packets = qemu.measure(one.problem, one.artifact).measurement.packets
            assert measured.overhead_cycles
            assert measured.samples == (measured.cycles + measured.overhead_cycles,)
            assert packets is not None
            assert abs(measured.cycles - packets) <= CALL_AND_RETURN


def test_one_that_dies_or_hangs_loses_only_itself(device: HexagonSim) -> None:
    bundle = Bundle([entry(), entry("NULL_STORE"), entry(), entry("HANGS"), entry()])
    with HexagonSim(device._settings, "hasty", Limits(task_s=HASTY_S)) as hasty:
        results = hasty.run(bundle)
    assert [told(r) for r in results] == ["ok", "run_error", "ok", "timeout", "ok"]


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("licence", "no licence"),
        ("lost results", "results are missing"),
        ("small total", "in the whole run"),
    ],
)
def test_a_simulator_that_fails_is_never_the_candidates_fault(
    device: HexagonSim, sdk: Path, kind: str, says: str
) -> None:
    trouble(sdk, kind)
    with pytest.raises(DeviceError, match=says):
        device.run(Bundle([entry()]))
    trouble(sdk, "")
    assert [told(r) for r in device.run(Bundle([entry()]))] == ["ok"]
