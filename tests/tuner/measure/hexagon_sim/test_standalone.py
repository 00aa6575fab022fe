"""hexagon-sim without an SDK, against a stand-in that runs qemu-hexagon."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rig.stand_in_tools import make_tools, trouble
from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError, DeviceError, UserError
from tuner.measure.device import Bundle, BundleEntry, Limits, Sampled
from tuner.measure.dsp.sdk import SDK_VARIABLES
from tuner.measure.hexagon_sim.device import HexagonSim, HexagonSimMeasurer, HexagonSimSettings
from tuner.problem.target import find_target


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return make_tools(tmp_path / "19.0.07")


def device_of(tools: Path, task_s: float = PATIENCE_S) -> HexagonSim:
    settings = HexagonSimSettings(name="sim", root=str(tools), arch="v66")
    return HexagonSim(settings, "sim-1", Limits(task_s=task_s))


def entry(behaviour: str = "WELL", **more: int) -> BundleEntry:
    problem = scale_problem()
    return BundleEntry(problem, scale_artifact(problem, behaviour, ("-fPIC",)), **more)


def told(result: object) -> str:
    if isinstance(result, CandidateError):
        return result.outcome.value
    return "ok" if isinstance(result, Sampled) else type(result).__name__


# A run


@pytest.mark.slow
def test_each_candidate_has_a_process_and_a_result_of_its_own(tools: Path) -> None:
    with device_of(tools) as device:
        results = device.run(Bundle([entry(), entry("WRONG_BYTE"), entry("NULL_STORE"), entry()]))
        assert [told(r) for r in results] == ["ok", "wrong_output", "run_error", "ok"]
        first, last = results[0], results[3]
        assert isinstance(first, Sampled)
        assert isinstance(last, Sampled)
        assert first.measurement.cycles == last.measurement.cycles > 1
        assert first.measurement.fidelity == "cycle_accurate"
        noticed = device.noticed()["PMU"]
        assert noticed == "PCYCLES 1,000"
        assert "stand-alone" in device.probe("nonce").details["simulator"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("another program", "did not run the driver (status 2); it said: usage: frobnicate FILE"),
        ("no cycles", "printed no cycles"),
    ],
)
def test_what_it_cannot_say_is_told_in_a_line_with_the_next_step(
    tools: Path, kind: str, says: str
) -> None:
    trouble(tools, kind)
    with device_of(tools) as device, pytest.raises(DeviceError) as caught:
        device.run(Bundle([entry()]))
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.next_step


# What is there


def bare(root: Path, *parts: str) -> Path:
    for part in parts:
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (root / part).touch()
    return root


PARTS = ("Tools/bin/hexagon-sim", "Tools/bin/hexagon-clang", "Tools/target/hexagon/lib/v68/G0/a")


def test_the_measurer_takes_the_tools_alone_and_names_what_they_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = bare(tmp_path / "tools", *PARTS)
    monkeypatch.setenv(SDK_VARIABLES[0], str(root))
    with HexagonSimMeasurer() as measurer:
        measurer.require(find_target("hexagon-v68"))
        assert "stand-alone" in measurer.fingerprint()["simulator"]
        with pytest.raises(UserError, match="have no Tools/target/hexagon/lib/v73") as caught:
            measurer.require(find_target("hexagon-v73"))
        assert "hexagon-v68" in caught.value.accepted
        (root / "Tools/bin/hexagon-clang").unlink()
        with pytest.raises(UserError, match="have no Tools/bin/hexagon-clang"):
            measurer.require(find_target("hexagon-v68"))
