"""``hvxtune farm calibrate``: from samples to a file of parameters, or to the reason why not."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

from service.cli.statuses import Exit
from tests.tuner.measure.qemu.made_events import KINDS, observed
from tuner.measure.qemu import calibration
from tuner.measure.qemu.model import load_model, model_path

NUMBER = 40
KEPT = ("gather", "scatter", "l2_bandwidth", "parallel_loop", "task")
FIX = [argument for name in KEPT for argument in ("--fix", name)]
TRUE = {
    "mispredict": 8.0,
    "l1_miss": 9.0,
    "l2_access": 0.4,
    "ddr_latency": 180.0,
    "ddr_overlap": 24.0,
    "ddr_bandwidth": 9.0,
}


@pytest.fixture
def samples(tmp_path) -> Path:
    """As many lines as there are samples; what they measured is :func:`simulated`'s to say."""
    line = {
        "kernel": "scale_u8",
        "contract": "static",
        "target": "hexagon-v66",
        "config": "default",
        "cache": "warm",
        "cycles": 1000,
        "device": "bench phone",
    }
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join([json.dumps(line)] * NUMBER))
    return path


@pytest.fixture
def simulated(monkeypatch):
    """Stands in for compiler and simulator: the samples follow other costs than the file's."""
    true = replace(load_model(model_path("v66")).parameters, **TRUE)
    kinds = [kind for kind in KINDS if kind not in ("gathers", "scatters")]

    def count(found, *, workers, on_progress):
        assert len(found.samples) == NUMBER
        on_progress(NUMBER, NUMBER)
        chosen = list(islice(cycle(kinds), NUMBER))
        return observed(np.random.default_rng(1), true, chosen, outliers={7: 3.0})

    monkeypatch.setattr(calibration, "count_events", count)


@pytest.mark.slow
def test_the_file_is_written_and_says_how_to_use_it(hvxtune, samples, simulated, tmp_path):
    told = hvxtune("farm", "calibrate", "--samples", str(samples), *FIX, "--json").json
    assert (told["target"], told["fidelity"], told["samples"]) == (
        *("hexagon-v66", "hardware"),
        NUMBER,
    )
    assert (set(told["kept"]), told["outliers"]) == (set(KEPT), [7])
    assert told["error_cross_validated"]["median"] < told["error_before"]["median"]
    place = tmp_path / "phone.toml"
    answer = hvxtune("farm", "calibrate", "--samples", str(samples), "--output", str(place), *FIX)
    assert answer.status == 0, answer.err
    assert f"export HVXTUNE_TIMING_MODEL={place}" in answer.out
    assert "40 samples: hexagon-v66, hardware, measured on bench phone" in answer.out
    assert "counted little: lines 7" in answer.out
    specs = load_model(place).specs
    for name, value in TRUE.items():
        assert specs[name].value == pytest.approx(value, rel=0.1)
        assert "measured on bench phone" in specs[name].source


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--target", "hexagon-v66-sm8150"], "line 1 of"),
        (["--fix", "l1_mis"], "did you mean l1_miss?"),
        (["--output", "samples.jsonl"], "samples.jsonl holds the samples"),
        (["--output", "missing/file.toml"], "missing/file.toml: its folder is missing"),
    ],
)
def test_requests_that_cannot_work_are_refused_at_once(
    hvxtune, samples, monkeypatch, options, said
):
    monkeypatch.setattr(calibration, "count_events", lambda *a, **k: pytest.fail("simulated"))
    answer = hvxtune("farm", "calibrate", "--samples", str(samples), *options)
    assert answer.status == 2
    assert said in answer.error_line


def test_a_corrupt_parameter_file_is_named_with_its_line(
    hvxtune, samples, simulated, tmp_path, monkeypatch
):
    broken = tmp_path / "broken.toml"
    lines = model_path("v66").read_text().splitlines()
    at = lines.index("[parameters.l1_miss]") + 1
    broken.write_text("\n".join([*lines[:at], 'value = "six"', *lines[at + 1 :]]))
    monkeypatch.setenv("HVXTUNE_TIMING_MODEL", str(broken))
    answer = hvxtune("farm", "calibrate", "--samples", str(samples))
    assert answer.status == Exit.MISSING
    assert f"broken.toml:{at + 1}: parameters.l1_miss.value" in answer.error_line
    assert str(broken) in answer.error_line
