"""Models quantized by onnxruntime's static quantizer, and run by onnxruntime."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

FORMS = ("QDQ", "QOperator")


@dataclass(frozen=True)
class Quantizing:
    """Options of the quantizer: its form, the activations' dtype, and scales of weights."""

    form: str = "QDQ"
    activations: str = "QUInt8"
    weights: str = "QInt8"
    per_channel: bool = False


def inputs_of(model: onnx.ModelProto, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Normal real numbers for all inputs."""
    rng = np.random.default_rng(seed)
    return {
        value.name: rng.normal(
            0, 1, [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        ).astype(np.float32)
        for value in model.graph.input
    }


def quantized(model: onnx.ModelProto, how: Quantizing, samples: int = 2) -> onnx.ModelProto:
    """``model`` quantized from ``samples`` seeded inputs."""
    from onnxruntime import quantization as q

    class Samples(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left: Iterator[Any] = iter([inputs_of(model, 100 + n) for n in range(samples)])

        def get_next(self) -> Any:
            return next(self._left, None)

    with tempfile.TemporaryDirectory() as folder:
        given, path = Path(folder) / "model.onnx", Path(folder) / "quantized.onnx"
        onnx.save(model, given)  # given as an object, it is emptied into files
        q.quantize_static(
            str(given),
            str(path),
            Samples(),
            quant_format=q.QuantFormat[how.form],
            activation_type=q.QuantType[how.activations],
            weight_type=q.QuantType[how.weights],
            per_channel=how.per_channel,
        )
        return onnx.load(path)


def run(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray[Any, Any]]
) -> list[np.ndarray[Any, Any]]:
    """The outputs by onnxruntime, on one thread."""
    import onnxruntime

    options = _precise()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, ["CPUExecutionProvider"]
    )
    made: list[np.ndarray[Any, Any]] = session.run(None, inputs)
    return made


def optimized(model: onnx.ModelProto) -> onnx.ModelProto:
    """A quantized ``model`` as onnxruntime saves it for this machine: integer operators of its own,
    with channels last."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options = _precise()
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
        return onnx.load(path)


def _precise() -> Any:
    """Options of a quiet session whose integer sums are exact on every processor.

    Without VNNI, onnxruntime's products of u8 and i8 saturate sums of two in 16 bits unless it is
    told to be precise. It then turns i8 weights into u8, but only in operators of ONNX itself: a
    model that was optimized before must have been told, too.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    return options
