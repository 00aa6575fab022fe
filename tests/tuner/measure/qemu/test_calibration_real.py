"""Calibration from end to end: real schedules of five kernels, compiled and simulated here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from service.cli import main
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.measure.qemu.calibration import Observation, count_events, read_samples
from tuner.measure.qemu.cycles import cycles_of
from tuner.measure.qemu.model import find_model, load_model

# Which kernels show what: L1 misses gemm (scalar loads of A, which L1 does not hold), L2 accesses
# add_u8 when warm, DDR's bandwidth add_u8 when cold, its latency and overlap the other kernels.
PLAN = [
    ("add_u8", {"width": 512, "height": 64}, "static", "warm", 5),
    ("add_u8", {"width": 512, "height": 64}, "static", "cold", 5),
    ("add_u8", {"width": 1000, "height": 64}, "none", "cold", 4),
    ("sobel_u8", {"width": 2048, "height": 64}, "static", "warm", 3),
    ("sobel_u8", {"width": 2048, "height": 64}, "static", "cold", 2),
    ("gaussian5x5_u8", {"width": 512, "height": 128}, "static", "warm", 3),
    ("gaussian5x5_u8", {"width": 512, "height": 128}, "static", "cold", 4),
    ("depthwise_conv2d_u8", {}, "static", "warm", 2),
    ("depthwise_conv2d_u8", {}, "static", "cold", 4),
    ("gemm_u8", {"m": 512, "n": 128, "k": 512}, "static", "warm", 8),
]
"""Forty schedules: kernel, shape, contract, cache state, how many."""
TRUE = {
    "l1_miss": 9.0,
    "l2_access": 0.4,
    "ddr_latency": 180.0,
    "ddr_overlap": 24.0,
    "ddr_bandwidth": 9.0,
}
NOT_SHOWN = ("mispredict", "gather", "scatter", "l2_bandwidth", "parallel_loop", "task")
"""What schedules of these kernels do too seldom, or never."""


def schedules() -> list[dict[str, object]]:
    """The samples of ``PLAN``, nothing measured yet."""
    random = Random(1)
    lines: list[dict[str, object]] = []
    for kernel, params, contract, cache, number in PLAN:
        problem = find_problem(kernel, params, "hexagon-v66", contract)
        space = find_kernel(kernel).space(problem)
        lines += [
            {
                "kernel": kernel,
                "params": params,
                "contract": contract,
                "target": "hexagon-v66",
                "config": space.sample(random).as_dict(),
                "cache": cache,
                "cycles": 1,
                "device": "made up",
            }
            for _ in range(number)
        ]
    return lines


def write(path: Path, lines: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


@pytest.fixture(scope="module")
def observations(tmp_path_factory: pytest.TempPathFactory) -> list[Observation]:
    """Events of the forty schedules, kept in the state directory for the command as well."""
    path = write(tmp_path_factory.mktemp("plan") / "plan.jsonl", schedules())
    return count_events(read_samples(path), workers=2)


@pytest.fixture
def samples(observations: list[Observation], tmp_path: Path) -> Path:
    """The same with cycles as the true costs give them, 2 % noise, and two gross mistakes."""
    true = replace(find_model("v66").parameters, **TRUE)
    rng = np.random.default_rng(1)
    lines = schedules()
    for line, seen in zip(lines, observations, strict=True):
        cycles = cycles_of(seen.events, true, seen.contexts).total
        line["cycles"] = cycles * float(np.exp(0.02 * rng.standard_normal()))
    lines[10]["cycles"] = 2.0 * float(str(lines[10]["cycles"]))
    lines[30]["cycles"] = 0.4 * float(str(lines[30]["cycles"]))
    return write(tmp_path / "samples.jsonl", lines)


@pytest.mark.slow
def test_known_costs_come_back_from_forty_noisy_samples_of_real_schedules(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "calibrated.toml"
    fixed = [argument for name in NOT_SHOWN for argument in ("--fix", name)]
    arguments = ["farm", "calibrate", "--samples", str(samples), "--output", str(place), "--json"]
    assert main([*arguments, *fixed]) == 0, capsys.readouterr().err
    told = json.loads(capsys.readouterr().out)
    specs = load_model(place).specs
    assert {name: specs[name].value for name in TRUE} == pytest.approx(TRUE, rel=0.1)
    assert told["outliers"] == [11, 31]
    assert told["error_cross_validated"]["median"] < told["error_before"]["median"] / 2
    assert told["error_cross_validated"]["percentile_90"] < told["error_before"]["percentile_90"]
