"""``hvxtune network bundle``: what it writes and tells, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

from service.cli import main
from tests.rig.models.builder import Builder
from tests.rig.models.quantized import Quantizing, quantized


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions and a softmax."""
    b = Builder(2, 17)
    x = b.relu6(b.conv(b.input("image", (1, 3, 8, 8)), 3, 16, size=3))
    x = b.node("Softmax", b.conv(x, 16, 16), axis=1)
    path = tmp_path_factory.mktemp("models") / "two.onnx"
    onnx.save(quantized(b.model(x), Quantizing()), path)
    return path


@pytest.fixture(autouse=True)
def nothing_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path / 'empty.sqlite'}")


@pytest.mark.slow
def test_it_tells_what_is_left_to_the_program(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "two.tar.gz"
    assert main(["network", "bundle", str(model), "-o", str(place), "--name", "a", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["output"], told["entry"]) == (str(place), "a_run")
    assert [own["function"][:16] for own in told["brought_by_the_program"]] == ["a_layer_Softmax_"]
    assert main(["network", "bundle", str(model), "-o", str(tmp_path / "out")]) == 0
    captured = capsys.readouterr()
    assert "1 of 2: blocked:qconv2d_u8" in captured.err
    assert "2 of 2: blocked:qconv2d_u8" in captured.err
    assert "with 2 functions, 0 of them by stored schedules" in captured.out
    assert "you do before: image_QuantizeLinear, quantizes an input" in captured.out
    assert "you define two_layer_Softmax_" in captured.out
    header = (tmp_path / "out" / "include" / "two.h").read_text()
    assert "int two_run(const uint8_t *input, uint8_t *output, void *arena);" in header
    assert "int two_layer_Softmax_" in header
