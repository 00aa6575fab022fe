"""Models that cannot be read: one line that names the node or key; never a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tuner.errors import UserError
from tuner.network import Graph
from tuner.network.reading import model_file


def small_model() -> onnx.ModelProto:
    """One quantized convolution in QDQ form, with a dynamic batch."""

    def constant(name: str, value: object, dtype: str) -> TensorProto:
        return numpy_helper.from_array(np.asarray(value, dtype), name)

    rng = np.random.default_rng(1)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"], "quantize_x"),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"], "dequantize_x"),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "dequantize_w"),
        helper.make_node("Conv", ["xd", "wd"], ["y"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["y", "s", "z"], ["yq"], "quantize_y"),
        helper.make_node("DequantizeLinear", ["yq", "s", "z"], ["out"], "dequantize_y"),
    ]
    constants = [
        constant("s", 0.1, "float32"),
        constant("z", 128, "uint8"),
        constant("ws", 0.02, "float32"),
        constant("wz", 0, "int8"),
        constant("w", rng.integers(-128, 128, (4, 4, 3, 3)), "int8"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ("batch", 4, 6, 6))],
        [helper.make_empty_tensor_value_info("out")],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def read(path: Path, axes: Mapping[str, int] | None = None) -> Graph:
    """In this process, as tests read many."""
    return model_file.read_content(
        path.read_bytes(), str(path), axes, model_file.beside(path.parent)
    )


def saved(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def external(model: onnx.ModelProto, location: str, **more: str) -> None:
    weights = model.graph.initializer[4]
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = weights.external_data.add()
        entry.key, entry.value = key, value


def huge_constant(model: onnx.ModelProto) -> None:
    model.graph.node.append(helper.make_node("ConstantOfShape", ["large"], ["zeros"], "zeros"))
    shape = np.array([1 << 20, 1 << 20], np.int64)
    model.graph.initializer.append(numpy_helper.from_array(shape, "large"))


def negative_weights(model: onnx.ModelProto) -> None:
    model.graph.initializer[4].dims[0] = -4


def outside(model: onnx.ModelProto) -> None:
    external(model, "../weights.bin")


def absolute(model: onnx.ModelProto) -> None:
    external(model, "/etc/hostname")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (huge_constant, "'zeros'"),
        (negative_weights, "'w'"),
        (outside, "'../weights.bin'"),
        (absolute, "'/etc/hostname'"),
    ],
)
def test_a_model_that_is_wrong_is_refused_by_name(
    tmp_path: Path, spoil: Callable[[onnx.ModelProto], None], named: str
) -> None:
    model = small_model()
    spoil(model)
    with pytest.raises(UserError) as refused:
        read(saved(tmp_path, model), {"batch": 1})
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


@given(scales=st.integers(2, 6), zeros=st.integers(2, 6), axis=st.integers(-6, 6))
def test_scales_are_as_many_as_the_channels_that_they_are_for(
    scales: int, zeros: int, axis: int
) -> None:
    model = small_model()
    made = {"ws": np.full(scales, 0.02, np.float32), "wz": np.zeros(zeros, np.int8)}
    for name, array in made.items():
        (held,) = (one for one in model.graph.initializer if one.name == name)
        held.CopyFrom(numpy_helper.from_array(array, name))
    model.graph.node[2].attribute.append(helper.make_attribute("axis", axis))
    content, shape = model.SerializeToString(), (4, 4, 3, 3)
    if -4 <= axis < 4 and scales == zeros == shape[axis]:
        assert model_file.read_content(content, "model.onnx", {"batch": 1}).nodes
        return
    with pytest.raises(UserError, match=rf"'dequantize_w' has {scales} scales .*axis {axis}"):
        model_file.read_content(content, "model.onnx", {"batch": 1})


@pytest.mark.parametrize(
    ("attributes", "named"),
    [
        ({"strides": [0, 1]}, "its strides are [0, 1]"),
        ({"strides": [0, 1], "auto_pad": "SAME_UPPER"}, "its strides are [0, 1]"),
        ({"strides": [1, -1]}, "its strides are [1, -1]"),
        ({"dilations": [0, 1]}, "its dilations are [0, 1]"),
        ({"pads": [1 << 40] * 4}, f"its pads are {[1 << 40] * 4}"),
        ({"pads": [1 << 20] * 4}, "[1, 4, 2097156, 2097156]"),
    ],
)
def test_windows_are_refused_by_what_is_wrong_with_them(
    attributes: dict[str, list[int] | str], named: str
) -> None:
    model = small_model()
    conv = model.graph.node[3]
    del conv.attribute[:]
    for key, value in attributes.items():
        conv.attribute.append(helper.make_attribute(key, value))
    with pytest.raises(UserError) as refused:
        model_file.read_content(model.SerializeToString(), "model.onnx", {"batch": 1})
    assert named in str(refused.value)


@pytest.mark.parametrize(
    ("axes", "named"),
    [({}, "add --axis batch=1"), ({"batch": 1, "time": 4}, "'time'")],
)
def test_dynamic_axes_need_values(tmp_path, axes, named):
    with pytest.raises(UserError) as refused:
        read(saved(tmp_path, small_model()), axes)
    assert named in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"not a model"])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"model\.onnx"):
        read(path)


def test_external_data_beside_the_model_is_read(tmp_path):
    model = small_model()
    weights = numpy_helper.to_array(model.graph.initializer[4])
    (tmp_path / "weights.bin").write_bytes(b"head" + weights.tobytes())
    external(model, "weights.bin", offset="4", length=str(weights.nbytes))
    graph = read(saved(tmp_path, model), {"batch": 1})
    same = read(saved(tmp_path, small_model()), {"batch": 1})
    assert graph.digest == same.digest


def test_a_link_out_of_the_folder_is_not_followed(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_bytes(bytes(144))
    (home / "weights.bin").symlink_to(tmp_path / "secret")
    model = small_model()
    external(model, "weights.bin")
    with pytest.raises(UserError, match="outside"):
        read(saved(home, model), {"batch": 1})


@pytest.mark.parametrize("name", ["weights.bin", "model.onnx"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    model = small_model()
    external(model, "weights.bin")
    path = saved(tmp_path, model)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match=f"{name} is not a file"):
        model_file.read(path, {"batch": 1})


def test_truncated_and_mutated_files_are_read_or_refused(tmp_path):
    """Any byte may be wrong: the result is a graph or one line."""
    content = small_model().SerializeToString()
    rng = np.random.default_rng(3)
    path = tmp_path / "model.onnx"
    refused = 0
    for trial in range(60):
        spoilt = bytearray(content)
        if trial % 3 == 0:
            del spoilt[int(rng.integers(len(content))) :]
        else:
            for place in rng.integers(0, len(content), int(rng.integers(1, 4))):
                spoilt[place] = int(rng.integers(256))
        path.write_bytes(spoilt)
        try:
            read(path, {"batch": 1})
        except UserError:
            refused += 1
    assert refused > 20
