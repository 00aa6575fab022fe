"""The page's way from a model to a program that runs: MobileNetV2 of 32 by 32 pixels."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.examples.building import ROOT
from tests.rig.models import published
from tests.rig.models.quantized import Quantizing, quantized
from tests.test_docs import session_of
from tests.tuner.network.running.test_steps import expected
from tuner.conformance.patience import PATIENCE_S
from tuner.network.reading import model_file
from tuner.network.shipping.edges import within_edges
from tuner.paths import cached

pytestmark = pytest.mark.slow


def test_the_page_on_networks_leads_from_a_model_to_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it prints is what the page shows, and what the references of the kernels make."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
    monkeypatch.setenv("PATH", programs)
    monkeypatch.setenv("PWD", str(tmp_path))
    for variable in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.setenv(variable, str(cached("zig-of-tests")))
    for folder in ("cmake", "examples/network", "tuner/measure/harness"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    model = quantized(published.mobilenet_v2(32, 10), Quantizing(per_channel=True))
    onnx.save(model, tmp_path / "mobilenet_v2.onnx")
    session = session_of(ROOT / "docs" / "networks.md")
    assert [words[1] for words, _ in session if words[0] == "hvxtune"] == ["network", "tool"]
    for words, shown in session:
        command = [os.path.expandvars(word) for word in words]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, f"{shlex.join(command)}: {done.stderr}"
        if shown:
            assert done.stdout.splitlines() == shown
    graph, _ = within_edges(model_file.read(tmp_path / "mobilenet_v2.onnx"))
    (name,), (output,) = graph.inputs, graph.outputs
    elements = (7 * np.arange(graph.tensors[name].elements)).astype(np.uint8)
    right = expected(graph, {name: elements.reshape(graph.tensors[name].shape)})[output]
    assert done.stdout == f"status 0, output {' '.join(map(str, right.reshape(-1)))}\n"
