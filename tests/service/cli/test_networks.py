"""``hvxtune network import`` on a model as people have it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from service.cli import main
from tests.rig.models import published
from tests.rig.models.builder import Builder
from tests.rig.models.quantized import Quantizing, quantized
from tuner.workload_sets import find_set


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "block.onnx"
    onnx.save(quantized(published.transformer_block(8, 16, 2), Quantizing()), path)
    return path


def test_the_json_has_every_layer_and_its_workload(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["network", "import", str(model), "--json"]) == 0
    network = json.loads(capsys.readouterr().out)
    assert network["inputs"] == {"tokens": [1, 8, 16]}
    layers = network["layers"]
    assert sum(layer["share_of_macs"] for layer in layers) == pytest.approx(1)
    # Constant weights with a zero point: a product, as those of two activations.
    dense = [layer for layer in layers if layer["kernel"] == "qgemm_u8" and layer["calls"] == 1]
    assert {(n["params"]["k"], n["params"]["n"]) for n in dense} == {(16, 16), (16, 64), (64, 16)}
    assert [n["note"] for n in layers if n["on_host"]] == [
        "no integer form of LayerNormalization is known"
    ] * 2
    (twins,) = {n["signature"] for n in dense if n["params"]["n"] == n["params"]["k"] == 16}
    assert sum(n["signature"] == twins for n in layers) == 4


def test_the_network_becomes_a_set_that_can_be_tuned(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "block.toml"
    assert main(["network", "import", str(model), "--json", "--write-set", str(path)]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    written = find_set(str(path))
    named = [(m.workload.kernel, name) for m in written.members for name in m.layers]
    calls = sum(layer["calls"] for layer in layers if layer["kernel"])
    assert len(named) == calls
    assert {("softmax_u8", "Softmax_18"), ("qgemm_u8", "MatMul_16, call 2")} <= set(named)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.onnx"], "missing.onnx"),
        (["FILE", "--write-set", "set.txt"], "--write-set 'set.txt'"),
        (["FILE", "--axis", "batch=1"], "no dynamic axis 'batch'"),
    ],
)
def test_a_wrong_request_is_one_line(
    model: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    given = [str(model) if word == "FILE" else word for word in arguments]
    assert main(["network", "import", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


TOPOLOGY = """
[units.arm]
host = true
macs_per_us = 20000.0
moved_bytes_per_us = 8000.0
[units.dsp]
target = "hexagon-v66"
cycles_per_us = 500.0
call_us = 35.0
[[links]]
between = ["arm", "dsp"]
bytes_per_us = 4000.0
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state directory of the test's own."""
    from tuner.paths import STATE_DIR_VARIABLE

    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path / "state"))


@pytest.mark.usefixtures("state")
def test_a_plan_says_which_unit_runs_what_and_where_its_times_come_from(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a slow host, all that kernels do is worth a call."""
    path = tmp_path / "phone.toml"
    path.write_text(TOPOLOGY.replace("20000.0", "2.0"))
    assert main(["network", "plan", str(model), "--topology", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    made = told["plan"]
    assert made["calls"] == sum(bar["kind"] == "call" for bar in made["bars"]) > 0
    layers = dict(zip(told["layers"], made["layers"], strict=True))
    on_dsp = {name: one for name, one in layers.items() if one["unit"] == "dsp"}
    assert {"MatMul_2", "MatMul_28"} <= on_dsp.keys()
    assert {one["source"] for one in on_dsp.values()} <= {"estimated", "no work"}
    assert made["latency_us"] >= made["bound_us"] > 35


MESH = """
[units.arm]
host = true
macs_per_us = 20.0
moved_bytes_per_us = 8.0
[units.mesh]
elements = 200
coordinators = 8
element_bytes = 4096
macs_per_us = 20.0
moved_bytes_per_us = 80.0
exchange_bytes_per_us = 100.0
[[links]]
between = ["arm", "mesh"]
bytes_per_us = 4000.0
dma = true
"""


@pytest.mark.usefixtures("state")
def test_a_plan_says_what_each_coordinator_of_a_mesh_has(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "board.toml"
    path.write_text(MESH)
    command = ["network", "plan", str(model), "--topology", str(path), "--seconds", "60"]
    assert main([*command, "--objective", "throughput", "--json"]) == 0
    coordinators = json.loads(capsys.readouterr().out)["meshes"]["mesh"]
    assert len(coordinators) == 8
    shared = {share["layer"] for own in coordinators for share in own}
    assert {"MatMul_2", "MatMul_28"} <= shared


@pytest.fixture(scope="module")
def residual(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An inverted residual: in channel blocks, the expansion in the call of what follows it."""
    b = Builder(5)
    x = b.relu6(b.conv(b.input("image", (1, 3, 24, 24)), 3, 16, size=3, stride=2))
    inner = b.relu6(b.conv(b.relu6(b.conv(x, 16, 32)), 32, 32, size=3, group=32))
    made = b.model(b.node("Add", x, b.conv(inner, 32, 16)))
    path = tmp_path_factory.mktemp("models") / "residual.onnx"
    onnx.save(quantized(made, Quantizing(per_channel=True)), path)
    return path


IN_BLOCKS = [
    "blocked:qconv2d_u8",
    None,
    "blocked:qexpanded_conv2d_u8",
    "blocked:qconv2d_u8",
    "qadd_u8",
]


def test_the_listing_and_the_set_have_the_layers_as_they_are_called(
    residual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "residual.toml"
    command = ["network", "import", str(residual), "--json", "--write-set", str(path)]
    assert main(command) == 0
    layers = json.loads(capsys.readouterr().out)["layers"][1:-1]
    assert [layer["kernel"] for layer in layers] == IN_BLOCKS
    assert [layer["within"] for layer in layers] == ["", layers[2]["name"], "", "", ""]
    members = find_set(str(path)).members
    assert [m.workload.kernel for m in members] == list(filter(None, IN_BLOCKS))
    assert main(["network", "import", str(residual)]) == 0
    shown = capsys.readouterr().out
    assert f"in {layers[2]['name']} " in shown
    assert "a kernel has their shape: 5 layers, 100.0% of MACs" in shown
    assert main([*command, "--channels-last"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"][1:-1]
    assert not any(":" in layer["kernel"] or layer["within"] for layer in layers)


@pytest.mark.slow
@pytest.mark.usefixtures("state")
def test_what_runs_in_one_image_is_tuned_planned_and_shown(
    residual: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernels of two generators in one batch."""
    phone = tmp_path / "phone.toml"
    phone.write_text(TOPOLOGY.replace("20000.0", "2.0"))
    with_units = ["--topology", str(phone)]
    tune = ["network", "tune", str(residual), "--trials", "4", "--workers", "1", "--json"]
    assert main([*tune, *with_units]) == 0
    tuned = json.loads(capsys.readouterr().out)
    assert [one["kernel"] for one in tuned["jobs"]] == list(filter(None, IN_BLOCKS))
    assert tuned["total"]["layers"] == 4
    assert main(["show", "residual", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["layers"][1:-1]
    fused = shown[2]["name"]
    assert [layer["within"] for layer in shown] == ["", fused, "", "", ""]
    assert main(["show", "residual"]) == 0
    assert f"in {fused} " in capsys.readouterr().out

    assert main(["network", "plan", str(residual), *with_units, "--json"]) == 0
    told = capsys.readouterr()
    assert f"kept with network {tuned['batch']}" in told.err
    made = json.loads(told.out)
    planned = {
        name: (layer["source"], layer["time_us"])
        for name, layer in zip(made["layers"], made["plan"]["layers"], strict=True)
    }
    on_dsp = [planned[layer["name"]] for layer in shown]
    assert [source for source, _ in on_dsp] == ["measured", "in another call", *["measured"] * 3]
    assert [500 * time_us for _, time_us in on_dsp] == [
        pytest.approx(layer["best_cycles"] or 0) for layer in shown
    ]

    np.save(tmp_path / "x.npy", np.zeros((1, 3, 24, 24), np.float32))
    run = ["network", "run", str(residual), "--input", str(tmp_path / "x.npy"), "--json"]
    for way in ([], ["--image", *with_units]):
        assert main([*run, *way]) == 0
        ran = json.loads(capsys.readouterr().out)
        schedules = [layer["schedule"] for layer in ran["layers"][1:-1]]
        assert schedules == ["stored", fused, *["stored"] * 3]
    assert ran["plan"]["planned_cycles"] == sum(layer["best_cycles"] or 0 for layer in shown)
    assert main([*run, "--channels-last"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert {layer["schedule"] for layer in ran["layers"][1:-1]} == {"textbook"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("words=x.npy", "tokens"),
        ("tokens=small.npy", "float32[1, 8, 16]"),
    ],
)
@pytest.mark.usefixtures("state")
def test_a_wrong_input_is_one_line(
    model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("small.npy", np.zeros(3, np.float32))
    text = str(model) if given == "FILE" else given
    assert main(["network", "run", str(model), "--input", text]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1
