"""The commands for networks take TFLite models as they take ONNX ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from service.cli import main
from tests.rig.models.channels_last import ChannelsLast
from tests.rig.models.twins import TfliteWriter
from tests.service.cli.test_networks import state
from tuner.network.reading.tflite_file import TfliteOperator, is_tflite
from tuner.network.reading.tflite_writing import written

__all__ = ["state"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions, their sum, and a difference, which no graph has."""
    m = ChannelsLast(3)
    x = m.convolved(m.input(1, 8, 8, 4), 16, 1)
    y = m.convolved(x, 16, 1)
    made = TfliteWriter(m.graph("two", m.sum(x, y), y)).model()
    total, other = made.outputs
    result = replace(made.tensors[total], name="difference")
    minus = TfliteOperator("SUB", (total, other), (len(made.tensors),), "SubOptions")
    whole = replace(
        made,
        tensors=(*made.tensors, result),
        operators=(*made.operators, minus),
        outputs=(len(made.tensors),),
    )
    path = tmp_path_factory.mktemp("models") / "two.tflite"
    path.write_bytes(written(whole))
    return path


def test_layers_kernels_and_the_host_are_listed(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["network", "import", str(model), "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert [layer["kernel"] for layer in layers] == [
        *["blocked:qconv2d_u8"] * 2,
        "qadd_u8",
        None,
    ]
    assert [layer["note"] for layer in layers if layer["on_host"]] == [
        "no integer form of SUB is known"
    ]
    assert main(["network", "import", str(model)]) == 0
    assert "on the host: 1 layers, 0.0% of MACs and " in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_it_is_run_and_bundled(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = tmp_path / "x.npy"
    np.save(given, np.random.default_rng(2).integers(-128, 128, (1, 8, 8, 4), np.int8))
    assert main(["network", "run", str(model), "--input", str(given), "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert [layer["schedule"] for layer in ran["layers"]] == [*["textbook"] * 3, "host"]
    assert max(layer["steps_apart"] for layer in ran["layers"]) <= 1
    place = tmp_path / "out"
    assert main(["network", "bundle", str(model), "-o", str(place)]) == 0
    assert "you define two_layer_" in capsys.readouterr().out
    (left,) = (place / "layers").iterdir()
    assert left.suffix == ".tflite"
    assert is_tflite(left.read_bytes())
    assert f"layers/{left.name} is this node" in (place / "include" / "two.h").read_text()
