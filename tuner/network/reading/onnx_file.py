"""ONNX files, which are untrusted: read within limits, constants included, and nodes run alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tuner.errors import ToolchainError, UserError
from tuner.network.graph import DTYPES, Array
from tuner.network.reading import limits

if TYPE_CHECKING:
    import onnx

OPSETS = range(10, 25)
"""Of ONNX's own operators: quantized ones appeared in 10."""
_OWN_DOMAINS = ("", "ai.onnx")

ExternalData = Callable[[str, int, int], bytes]
"""Reads a location beside the model, from an offset on, as many bytes: fewer if it ends before.
Raises ``UserError``."""


def no_external_data(location: str, offset: int, length: int) -> bytes:
    """Refuses: of models in memory."""
    raise UserError(f"data in '{location}', outside the model", accepted="constants in the model")


def require_onnx() -> None:
    """Raises ``ToolchainError`` with the command that installs the package if it is missing."""
    if importlib.util.find_spec("onnx") is None:
        raise ToolchainError(
            "reading networks needs the Python package 'onnx', which is missing",
            next_step="run `pip install onnx` in the environment of hvxtune, "
            "or install hvxtune[network]",
        )


def load_package() -> None:
    """Imports what reading takes, for a process that cannot do so later."""
    require_onnx()
    from onnx import helper

    node = helper.make_node("Add", ["a", "a"], ["b"])
    model = alone(node, [helper.make_opsetid("", 17)], {"a": ("float32", (1,))}, {})
    inferred_shapes(model)
    run_alone(model, {"a": np.zeros(1, np.float32)})


def load(content: bytes, path: str) -> onnx.ModelProto:
    """The model in ``content``, that of the file ``path``, without external data.

    Raises ``UserError`` in one line for what is not an ONNX model of opsets that can be read.
    """
    require_onnx()
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except DecodeError:
        raise UserError(
            f"{path} is not an ONNX model, or is truncated", accepted="a whole .onnx file"
        ) from None
    if not model.graph.node:
        raise UserError(f"{path} has no nodes", accepted="an ONNX model with a graph")
    if len(model.graph.node) > limits.MOST_NODES:
        raise UserError(
            f"{path} has {len(model.graph.node)} nodes", accepted=f"at most {limits.MOST_NODES}"
        )
    _check_versions(path, model)
    return model


def _check_versions(path: str, model: onnx.ModelProto) -> None:
    found = [entry.version for entry in model.opset_import if entry.domain in _OWN_DOMAINS]
    if not found or found[0] not in OPSETS:
        raise UserError(
            f"{path} uses opset {found[0] if found else 'of no version'}",
            accepted=f"{OPSETS.start} to {OPSETS.stop - 1}",
            next_step="convert it with onnx.version_converter",
        )
    if model.functions:
        raise UserError(
            f"{path} defines the function '{model.functions[0].name}'",
            accepted="models without functions of their own",
            next_step="inline them with onnx.inliner.inline_local_functions",
        )
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g") or attribute.graphs:
                raise UserError(
                    f"node '{node.name or node.op_type}' ({node.op_type}) holds a graph",
                    accepted="models without If, Loop and Scan",
                    next_step="export the model with its control flow unrolled",
                )


def dtype_name(code: int, what: str) -> str:
    """NumPy's name of ONNX's element type ``code``; ``UserError`` if it is none of ``DTYPES``."""
    import onnx

    try:
        name = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).name
    except (KeyError, TypeError, ValueError):
        name = f"number {code}"
    if name not in DTYPES:
        raise UserError(f"{what} has the element type {name}", accepted=", ".join(DTYPES))
    return name


def constant_of(tensor: onnx.TensorProto, external: ExternalData) -> Array:
    """The elements of a constant; ``external`` reads what is not in the model.

    Raises ``UserError`` naming the constant.
    """
    import onnx
    from onnx import numpy_helper

    what = f"the constant '{tensor.name}'"
    dtype = np.dtype(dtype_name(tensor.data_type, what))
    elements = prod(tensor.dims)
    if min(tensor.dims, default=0) < 0 or elements * dtype.itemsize > limits.LARGEST_FILE_BYTES:
        raise UserError(
            f"{what} has the shape {list(tensor.dims)}",
            accepted=f"extents of at least 0, at most {limits.LARGEST_FILE_BYTES} bytes",
        )
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, dtype, external, what)
    try:
        array: Array = numpy_helper.to_array(tensor)
    except (ValueError, TypeError) as error:
        raise UserError(f"{what} cannot be read: {error}") from None
    return array


def _external(
    tensor: onnx.TensorProto, dtype: np.dtype[Any], external: ExternalData, what: str
) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    wanted = prod(tensor.dims) * dtype.itemsize
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", wanted))
        if not 0 <= offset < 1 << 63 or length != wanted:
            raise ValueError(f"{length} bytes at {offset}")
    except ValueError as error:
        raise UserError(
            f"{what} has external data of {error}", accepted=f"{wanted} bytes"
        ) from None
    try:
        content = external(entries.get("location", ""), offset, wanted)
    except UserError as error:
        raise UserError(f"{what}: {error.message}", accepted=error.accepted) from None
    if len(content) < wanted:
        raise UserError(
            f"{what} ends beyond '{entries.get('location')}'",
            accepted=f"{wanted} bytes at {offset}",
        )
    return np.frombuffer(content, dtype).reshape(tuple(tensor.dims))


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of ``node`` by name; text as ``str``."""
    from onnx import helper

    made = {}
    for attribute in node.attribute:
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError as error:
            raise UserError(f"node '{node.name}': attribute {attribute.name}: {error}") from None
        made[attribute.name] = value.decode() if isinstance(value, bytes) else value
    return made


def alone(
    node: onnx.NodeProto,
    opsets: Sequence[onnx.OperatorSetIdProto],
    operands: Mapping[str, tuple[str, tuple[int, ...]]],
    constants: Mapping[str, Array],
) -> onnx.ModelProto:
    """A model of ``node`` alone. ``operands`` gives dtype and shape of its inputs by name;
    ``constants`` the elements of those that are constant."""
    import onnx
    from onnx import helper, numpy_helper

    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in operands.items()
        if name not in constants
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "alone", inputs, outputs, initializers)
    made: onnx.ModelProto = helper.make_model(graph, opset_imports=list(opsets))
    made.ir_version = onnx.IR_VERSION
    return made


def inferred_shapes(model: onnx.ModelProto) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each output of ``model`` that ONNX's inference finds without doubt."""
    from onnx import shape_inference

    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 - raised from C++ as whatever it is: no shape is known
        return {}
    found = {}
    for value in inferred.graph.output:
        kind = value.type.tensor_type
        if value.type.HasField("tensor_type") and kind.HasField("shape") and kind.elem_type:
            shape = tuple(
                extent.dim_value if extent.HasField("dim_value") else -1
                for extent in kind.shape.dim
            )
            if min(shape, default=0) >= 0:
                found[value.name] = dtype_name(kind.elem_type, f"tensor '{value.name}'"), shape
    return found


def run_alone(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """The outputs of a model of one node, by ONNX's reference evaluator."""
    from onnx.reference import ReferenceEvaluator

    node = model.graph.node[0]
    try:
        made = ReferenceEvaluator(model).run(None, dict(inputs))
    except Exception as error:  # noqa: BLE001 - whatever the evaluator's operators raise
        raise UserError(
            f"node '{node.name}' ({node.op_type}) cannot be computed: "
            f"{type(error).__name__} {error}"
        ) from None
    return [np.asarray(array) for array in made]


def parsed(content: bytes) -> onnx.ModelProto:
    """The model that :func:`alone` made, from its bytes."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(content)
    return model
