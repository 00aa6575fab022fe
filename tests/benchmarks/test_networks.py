"""``make bench-networks`` shows what became of a network, and fails where the plan gains too
little."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from benchmarks import networks
from benchmarks.networks import GAINS, HEADING, Bench, Row, main, too_slow
from tests.rig.models.builder import Builder
from tuner.network.planning.topology import read_topology
from tuner.paths import STATE_DIR_VARIABLE

TUNED = Row("tuned", 63, 67, 1_000_000, 200_000, 250_000, 2.5, "none")
PHONE = Path(networks.__file__).with_name("phone.toml")


def test_a_plan_counts_conversions_and_must_gain_what_is_asked() -> None:
    plan = replace(TUNED, way="the plan", cycles=900_000, repack=100_000)
    assert GAINS["mobilenet_v2"] == 1.25
    assert too_slow("mobilenet_v2", [TUNED, TUNED, plan]) == ""
    slower = replace(plan, repack=110_000)
    said = too_slow("mobilenet_v2", [TUNED, TUNED, slower])
    assert said == "mobilenet_v2: 1.24x, less than 1.25x"
    assert too_slow("resnet50", [TUNED, TUNED, slower]) == ""


def test_a_row_has_a_cell_for_each_column() -> None:
    assert str(TUNED) == "| tuned | 63 | 67 | 1,000,000 | 200,000 | 250,000 | 2.50 | none |"
    assert {line.count("|") for line in HEADING.splitlines()} == {str(TUNED).count("|")}


def test_an_unknown_network_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["networks", "alexnet"])
    with pytest.raises(SystemExit):
        main()
    assert "no network alexnet; there are mobilenet_v2, resnet50" in capsys.readouterr().err


def residual(pixels: int, classes: int) -> onnx.ModelProto:
    """The beginning of MobileNetV2, narrow."""
    b = Builder(5)
    x = b.relu6(b.conv(b.input("image", (1, 3, pixels, pixels)), 3, 16, size=3, stride=2))
    inner = b.relu6(b.conv(b.relu6(b.conv(x, 16, 32)), 32, 32, size=3, group=32))
    return b.model(b.conv(inner, 32, classes))


@pytest.mark.slow
def test_a_network_is_made_tuned_and_run_each_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))
    monkeypatch.setitem(networks.NETWORKS, "residual", residual)
    bench = Bench(tmp_path, read_topology(PHONE), 1.0, 1, pixels=24, classes=16)
    textbook, tuned, plan = bench.of("residual")
    assert (textbook.calls, tuned.calls, plan.calls) == (4, 4, 3)
    assert textbook.crossings == tuned.crossings > plan.crossings == 2
    assert plan.time_ms < tuned.time_ms
    shown = capsys.readouterr().out
    assert f"{tuned.all_cycles / plan.all_cycles:.2f}x fewer cycles" in shown
    assert all(str(row) in shown for row in (textbook, tuned, plan))
    assert "tune layers of the plan: " in shown
