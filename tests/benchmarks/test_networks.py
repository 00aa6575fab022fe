"""The benchmark ``networks`` shows what became of a network, and fails where the plan gains too
little."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from benchmarks import networks
from benchmarks.harness import Report
from benchmarks.networks import Bench
from tests.rig.models.builder import Builder
from tuner.network.planning.topology import read_topology
from tuner.paths import STATE_DIR_VARIABLE

PHONE = Path(networks.__file__).with_name("phone.toml")


def residual(pixels: int, classes: int) -> onnx.ModelProto:
    """The beginning of MobileNetV2, narrow."""
    b = Builder(5)
    x = b.relu6(b.conv(b.input("image", (1, 3, pixels, pixels)), 3, 16, size=3, stride=2))
    inner = b.relu6(b.conv(b.relu6(b.conv(x, 16, 32)), 32, 32, size=3, group=32))
    return b.model(b.conv(inner, 32, classes))


@pytest.mark.nightly
def test_a_network_is_made_tuned_and_run_each_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setitem(networks.NETWORKS, "residual", residual)
    bench = Bench(tmp_path, read_topology(PHONE), 1.0, 1, pixels=24, classes=16)
    textbook, tuned, plan = bench.of("residual", Report())
    assert (textbook.calls, tuned.calls, plan.calls) == (4, 4, 3)
    assert textbook.crossings == tuned.crossings > plan.crossings == 2
    assert plan.time_ms < tuned.time_ms
    shown = capsys.readouterr().out
    assert f"{tuned.all_cycles / plan.all_cycles:.2f}x fewer cycles" in shown
    assert all(f"| {row.way} | {row.calls} |" in shown for row in (textbook, tuned, plan))
    assert "tune layers of the plan: " in shown
