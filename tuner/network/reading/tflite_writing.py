"""TFLite files written: of the operators that stay on the host, one each, and their results."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from tuner.errors import ToolchainError, UserError
from tuner.network.graph import Array, Quantization
from tuner.network.reading.tflite_file import (
    IDENTIFIER,
    VERSION,
    TfliteModel,
    TfliteOperator,
    TfliteTensor,
    fields_of,
    names_of,
)

_LARGEST_OLD_CODE = 127
"""Codes that fit the byte that older files have for them; others state this number there."""


def written(model: TfliteModel) -> bytes:
    """``model`` as a TFLite file."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    buffers = [_table(builder, "Buffer")]
    tensors = [_tensor(builder, tensor, buffers) for tensor in model.tensors]
    codes: dict[tuple[str, str, int], int] = {}
    operators = [_operator(builder, operator, codes) for operator in model.operators]
    graph = _table(
        builder,
        "SubGraph",
        Tensors=_offsets(builder, tensors),
        Inputs=_numbers(builder, model.inputs, np.int32),
        Outputs=_numbers(builder, model.outputs, np.int32),
        Operators=_offsets(builder, operators),
    )
    made = _table(
        builder,
        "Model",
        Version=VERSION,
        OperatorCodes=_offsets(builder, [_code(builder, *code) for code in codes]),
        Subgraphs=_offsets(builder, [graph]),
        Buffers=_offsets(builder, buffers),
    )
    builder.Finish(made, file_identifier=IDENTIFIER)
    return bytes(builder.Output())


def alone(operator: TfliteOperator, tensors: Mapping[int, TfliteTensor]) -> bytes:
    """A file of ``operator`` alone, with these ``tensors``; its inputs are those without data."""
    places = {index: place for place, index in enumerate(tensors)}

    def placed(indices: Sequence[int]) -> tuple[int, ...]:
        return tuple(places.get(index, -1) for index in indices)

    given = dict.fromkeys(n for n in operator.inputs if n >= 0 and tensors[n].data is None)
    moved = TfliteOperator(
        operator.operator,
        placed(operator.inputs),
        placed(operator.outputs),
        operator.kind,
        operator.options,
        operator.code,
        operator.custom,
        operator.version,
    )
    return written(TfliteModel(tuple(tensors.values()), (moved,), placed([*given]), moved.outputs))


def run_alone(model: bytes, inputs: Mapping[str, Array], name: str) -> list[Array]:
    """The outputs of a file of :func:`alone`, by TFLite's interpreter.

    Raises ``ToolchainError`` without the package that has it, and ``UserError`` if it cannot.
    """
    if importlib.util.find_spec("ai_edge_litert") is None:
        raise ToolchainError(
            f"node '{name}' stays on the host, and TFLite's interpreter to run it is missing",
            next_step="run `pip install ai-edge-litert` in the environment of hvxtune",
        )
    interpreter = import_module("ai_edge_litert.interpreter")
    try:
        # Delegates round in ways of their own.
        own = interpreter.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        made = interpreter.Interpreter(
            model_content=model, num_threads=1, experimental_op_resolver_type=own
        )
        made.allocate_tensors()
        for place, array in zip(made.get_input_details(), inputs.values(), strict=True):
            made.set_tensor(place["index"], array)
        made.invoke()
        return [made.get_tensor(place["index"]) for place in made.get_output_details()]
    except (RuntimeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"node '{name}' cannot be computed by TFLite: {said}") from None


def _table(builder: Any, kind: str, **fields: Any) -> int:
    """A table of the schema with ``fields``; vectors and tables by their offsets."""
    module = import_module(f"tflite.{kind}")
    module.Start(builder)
    for name, value in fields.items():
        if value is not None:
            getattr(module, f"Add{name}")(builder, value)
    made: int = module.End(builder)
    return made


def _offsets(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    made: int = builder.EndVector()
    return made


def _numbers(builder: Any, numbers: Any, dtype: Any) -> int | None:
    array = np.asarray(numbers, dtype)
    return builder.CreateNumpyVector(array) if array.size else None


def _number_of(enumeration: str, name: str) -> int:
    return next(number for number, known in names_of(enumeration).items() if known == name)


def _tensor(builder: Any, tensor: TfliteTensor, buffers: list[int]) -> int:
    number = 0
    if tensor.data is not None:
        data = np.frombuffer(np.ascontiguousarray(tensor.data).tobytes(), np.uint8)
        number = len(buffers)
        buffers.append(_table(builder, "Buffer", Data=_aligned(builder, data)))
    signature = [-1 if n in tensor.dynamic else extent for n, extent in enumerate(tensor.shape)]
    return _table(
        builder,
        "Tensor",
        Shape=_numbers(builder, tensor.shape, np.int32),
        ShapeSignature=_numbers(builder, signature if tensor.dynamic else (), np.int32),
        Type=_number_of("TensorType", tensor.dtype.upper()),
        Buffer=number,
        Name=builder.CreateString(tensor.name),
        Quantization=_quantization(builder, tensor.quantization),
    )


def _aligned(builder: Any, data: Array) -> int:
    """Bytes at a multiple of 16, as the schema wants those of constants to be."""
    builder.StartVector(1, data.size, 16)
    builder.head -= data.size
    builder.Bytes[builder.head : builder.head + data.size] = data.tobytes()
    builder.vectorNumElems = data.size
    made: int = builder.EndVector()
    return made


def _quantization(builder: Any, held: Quantization | None) -> int | None:
    if held is None:
        return None
    return _table(
        builder,
        "QuantizationParameters",
        Scale=_numbers(builder, held.scale, np.float32),
        ZeroPoint=_numbers(builder, held.zero_point, np.int64),
        QuantizedDimension=held.axis or 0,
    )


def _operator(
    builder: Any, operator: TfliteOperator, codes: dict[tuple[str, str, int], int]
) -> int:
    code = (operator.operator, operator.code, operator.version)
    options = None
    if operator.kind:
        vectors = fields_of(operator.kind)
        fields = {
            name: _field(builder, value, is_vector=vectors[name])
            for name, value in operator.options.items()
        }
        options = _table(builder, operator.kind, **fields)
    return _table(
        builder,
        "Operator",
        OpcodeIndex=codes.setdefault(code, len(codes)),
        Inputs=_numbers(builder, operator.inputs, np.int32),
        Outputs=_numbers(builder, operator.outputs, np.int32),
        BuiltinOptionsType=_number_of("BuiltinOptions", operator.kind or "NONE"),
        BuiltinOptions=options,
        CustomOptions=_numbers(builder, np.frombuffer(operator.custom, np.uint8), np.uint8),
    )


def _field(builder: Any, value: Any, *, is_vector: bool) -> Any:
    if is_vector:
        array = np.asarray(value)
        return _numbers(builder, array, array.dtype)
    return builder.CreateString(value) if isinstance(value, str) else value


def _code(builder: Any, operator: str, code: str, version: int) -> int:
    number = _number_of("BuiltinOperator", operator)
    return _table(
        builder,
        "OperatorCode",
        DeprecatedBuiltinCode=min(number, _LARGEST_OLD_CODE),
        BuiltinCode=number,
        CustomCode=builder.CreateString(code) if code else None,
        Version=version,
    )
