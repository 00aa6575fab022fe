"""Model files are read by a confined process, and give the graph that reading them here gives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from onnx import numpy_helper

from tests.rig.models.channels_last import NETWORKS
from tests.rig.models.twins import as_tflite
from tests.tuner.network.reading.test_bad_models import external, saved, small_model
from tests.tuner.network.reading.test_tflite import IMAGE, single
from tuner.errors import UserError
from tuner.network.reading import contained, model_file, onnx_file


def beside(folder: Path) -> Path:
    """A model whose weights lie beside it."""
    model = small_model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    weights = numpy_helper.to_array(model.graph.initializer[4])
    (folder / "weights.bin").write_bytes(weights.tobytes())
    external(model, "weights.bin")
    return saved(folder, model)


def stored(content: bytes) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "model"  # a format is told by content
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize(
    "write",
    [
        stored(as_tflite(NETWORKS["u_net"]())),
        stored(single("SUB", [IMAGE, IMAGE], [IMAGE], "SubOptions")),
        beside,
    ],
    ids=["tflite", "on the host", "external data"],
)
def test_a_model_reads_as_it_does_here(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    path = write(tmp_path)
    here = model_file.read_content(
        path.read_bytes(), str(path), external=model_file.beside(path.parent)
    )
    found = model_file.read(path)
    assert found.canonical == here.canonical
    assert found.data.keys() == here.data.keys()
    assert all(np.array_equal(array, here.data[key]) for key, array in found.data.items())


def test_the_process_that_reads_has_no_privileges_and_no_files(tmp_path: Path) -> None:
    """Asked while it waits for data from beside the model."""
    path = beside(tmp_path)
    seen: list[str] = []

    def look(location: str, offset: int, length: int) -> bytes:
        children = psutil.Process().children()
        (reader,) = (one for one in children if "tuner.network.reading.process" in one.cmdline())
        seen.append(Path(f"/proc/{reader.pid}/status").read_text())
        return model_file.beside(tmp_path)(location, offset, length)

    contained.read(path.read_bytes(), str(path), {}, look)
    assert "NoNewPrivs:\t1" in seen[0]
    assert "CapEff:\t0000000000000000" in seen[0]
    if os.uname().machine == "x86_64":
        assert "Seccomp:\t2" in seen[0]


def test_a_process_that_ends_early_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contained, "TIME_LIMIT_S", 0.0)
    path = stored(as_tflite(NETWORKS["block"]()))(tmp_path)
    with pytest.raises(UserError, match="ended early") as refused:
        model_file.read(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b'{"graph": {}, "arrays": []}\n',
        b'{"graph": {}, "arrays": [["a", "int8", [9]]]}\nshort',
        b'{"external": ["x", 0, -1]}\n',
        b'{"error": {"kind": "user", "message": "\\u001b[2J!", "accepted": "", "next_step": ""}}\n',
    ],
)
def test_what_the_process_says_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    (tmp_path / "said").write_bytes(said)
    (tmp_path / "liar.py").write_text(
        "import pathlib, sys\n"
        "sys.stdin.buffer.readline()\n"
        f"sys.stdout.buffer.write(pathlib.Path({str(tmp_path / 'said')!r}).read_bytes())\n"
    )
    monkeypatch.setattr(contained, "_MODULE", "liar")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError) as refused:
        contained.read(b"", "model.onnx", {}, onnx_file.no_external_data)
    assert str(refused.value).isprintable()
