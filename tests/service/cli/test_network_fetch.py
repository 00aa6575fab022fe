"""``hvxtune fetch --network``: what it refuses before and after it asks. What it makes is built in
tests/examples/test_locked_network.py."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.rig.models.builder import Builder
from tests.rig.models.quantized import Quantizing, quantized


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two convolutions."""
    b = Builder(2, 17)
    x = b.relu6(b.conv(b.input("image", (1, 3, 8, 8)), 3, 16, size=3))
    path = tmp_path_factory.mktemp("models") / "two.onnx"
    onnx.save(quantized(b.model(b.conv(x, 16, 16)), Quantizing()), path)
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gemm_u8", "--axis", "batch=1"], "--axis batch=1 without --network"),
        (["--network", "MODEL", "-p", "m=1"], "--network with --param"),
        (["--network", "MODEL", "--from", "a.zip", "--offline"], "--from with --offline"),
        (["--network", "MODEL", "--from", "a.zip"], "cannot read a.zip"),
        (["--network", "MODEL", "--name", "two-2"], "the name 'two-2'"),
        (["--network", "MODEL", "--offline"], "'two' is not pinned in hvxtune.lock"),
        (["--network", "MODEL", "--lock", "none/x.lock"], "cannot open the folder of none/x.lock"),
        (["--network", "MODEL"], "no schedule is stored for 2 of 2 functions of"),
    ],
)
def test_a_wrong_request_is_one_line(hvxtune, model: Path, tmp_path: Path, arguments, said) -> None:
    given = [str(model) if word == "MODEL" else word for word in arguments]
    assert said in hvxtune("fetch", *given).error_line
    assert not (tmp_path / "hvxtune.lock").exists()
    assert not (tmp_path / "two").exists()


def test_a_folder_with_other_files_is_left_alone(hvxtune, model: Path, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "mine.txt").write_text("mine")
    assert "two has other files: mine.txt" in hvxtune("fetch", "--network", str(model)).error_line
