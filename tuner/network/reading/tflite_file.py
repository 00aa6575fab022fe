"""TFLite files, which are untrusted: read within limits into plain values.

The package tflite has the accessors that flatc makes of TFLite's schema. They check nothing: an
offset may lead anywhere in the file, or out of it, and parts may overlap, so that a small file can
claim to hold more than any machine. So each part that is read counts, and all of them may not be
more than a few times the file; what lies outside of it raises an error.
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from tuner.errors import ToolchainError, UserError
from tuner.network.graph import DTYPES, Array, Quantization, Shape
from tuner.network.reading import limits
from tuner.plain_text import plain

IDENTIFIER = b"TFL3"
"""Bytes 4 to 7 of a TFLite file."""
VERSION = 3
"""Of the schema, as its files state it."""
CUSTOM = "CUSTOM"
_MALFORMED = (struct.error, ValueError, TypeError, IndexError, OverflowError, AttributeError)
_OVERLAP = 4
"""How many times the file its parts may be together: tables of offsets are shared on purpose."""
_TABLE_BYTES = 8
"""The least that a table takes, with its share of a table of offsets."""
_MOST_DIMENSIONS = 16


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor as the file states it. Extents of ``dynamic`` axes are not known before the model
    has inputs; ``data`` has the elements of a constant. ``quantization`` is that of integers."""

    name: str
    shape: Shape
    dtype: str
    quantization: Quantization | None = None
    data: Array | None = None
    dynamic: tuple[int, ...] = ()


@dataclass(frozen=True)
class TfliteOperator:
    """An operator by its name in the schema (``code``: that of a custom one) with the tensors it
    reads (-1: left out) and writes. ``options`` are those of the table ``kind`` by the names that
    the schema has for them, without underscores."""

    operator: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kind: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    code: str = ""
    custom: bytes = b""
    version: int = 1


@dataclass(frozen=True)
class TfliteModel:
    """The one graph of a model; operators are in the order they run in."""

    tensors: tuple[TfliteTensor, ...]
    operators: tuple[TfliteOperator, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def is_tflite(content: bytes) -> bool:
    """Whether ``content`` says that it is a TFLite file."""
    return content[4:8] == IDENTIFIER


def require_tflite() -> None:
    """Raises ``ToolchainError`` with the command that installs the package if it is missing."""
    if importlib.util.find_spec("tflite") is None:
        raise ToolchainError(
            "reading TFLite models needs the Python package 'tflite', which is missing",
            next_step="run `pip install tflite` in the environment of hvxtune, "
            "or install hvxtune[network]",
        )


def load_package() -> None:
    """Imports what reading takes, for a process that cannot do so later."""
    require_tflite()
    import_module("tflite")
    for writer in ("flatbuffers", "flatbuffers.builder", "flatbuffers.compat"):
        import_module(writer)


def load(content: bytes, path: str) -> TfliteModel:
    """The model in ``content``, that of the file ``path``. Raises ``UserError`` in one line."""
    require_tflite()
    try:
        return _File(content, path).model()
    except _MALFORMED as error:
        raise UserError(
            f"{path} is malformed: {type(error).__name__} {error}", accepted="a whole TFLite file"
        ) from None


@cache
def names_of(enumeration: str) -> Mapping[int, str]:
    """The names of an enumeration of the schema by their numbers."""
    held = vars(getattr(import_module(f"tflite.{enumeration}"), enumeration))
    return {number: name for name, number in held.items() if isinstance(number, int)}


def table_class(name: str) -> Any:
    """The accessors of a table of the schema."""
    return getattr(import_module(f"tflite.{name}"), name)


@cache
def fields_of(kind: str) -> Mapping[str, bool]:
    """The fields of a table of the schema, and whether each is a vector."""
    held = vars(table_class(kind))
    return {
        name.removeprefix("Add"): name.removeprefix("Add") + "AsNumpy" in held
        for name in vars(import_module(f"tflite.{kind}"))
        if name.startswith("Add") and name.removeprefix("Add") in held
    }


class _File:
    def __init__(self, content: bytes, path: str) -> None:
        self._content, self._path = content, path
        self._left = _OVERLAP * len(content) + (1 << 12)
        self._buffers: dict[int, Array] = {}
        self._root = table_class("Model").GetRootAs(content, 0)

    def model(self) -> TfliteModel:
        root = self._root
        if root.Version() != VERSION:
            raise UserError(
                f"{self._path} has version {root.Version()} of the schema", accepted=str(VERSION)
            )
        if root.SubgraphsLength() != 1:
            raise UserError(
                f"{self._path} has {root.SubgraphsLength()} graphs",
                accepted="one: no If, While and Call, and one signature",
                next_step="convert the model with one signature and its control flow unrolled",
            )
        graph = root.Subgraphs(0)
        if not 0 < graph.OperatorsLength() <= limits.MOST_NODES:
            raise UserError(
                f"{self._path} has {graph.OperatorsLength()} operators",
                accepted=f"1 to {limits.MOST_NODES}",
            )
        tensors = self._tables(graph, "Tensors", self._tensor)
        codes = self._tables(root, "OperatorCodes", self._code)

        def operator(table: Any, position: int) -> TfliteOperator:
            return self._operator(table, position, codes, len(tensors))

        operators = self._tables(graph, "Operators", operator)
        ends = [self._indices(graph, name, name.lower(), len(tensors)) for name in _ENDS]
        if not ends[1]:
            raise UserError(f"{self._path} has no outputs", accepted="at least one")
        return TfliteModel(tensors, operators, *ends)

    # Parts

    def _charge(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise UserError(
                f"parts of {self._path} overlap: they would be more than the file",
                accepted="a file in which each part has bytes of its own",
            )

    def _tables(self, holder: Any, name: str, read: Callable[[Any, int], Any]) -> tuple[Any, ...]:
        made = []
        for position in range(getattr(holder, f"{name}Length")()):
            self._charge(_TABLE_BYTES)
            made.append(read(getattr(holder, name)(position), position))
        return tuple(made)

    def _numbers(self, table: Any, name: str) -> Array:
        """The elements of a vector, none if it is left out. NumPy refuses one that ends outside."""
        self._charge(0 if getattr(table, f"{name}IsNone")() else _TABLE_BYTES)
        found = getattr(table, f"{name}AsNumpy")()
        array: Array = np.zeros(0, np.int32) if isinstance(found, int) else found
        self._charge(array.nbytes)
        return array

    def _text(self, found: bytes | None) -> str:
        self._charge(len(found or b""))
        return plain((found or b"").decode(errors="replace"))

    def _indices(self, table: Any, name: str, what: str, count: int) -> tuple[int, ...]:
        found = tuple(int(index) for index in self._numbers(table, name))
        least = -1 if what.startswith("operator") else 0
        for index in found:
            if not least <= index < count:
                raise UserError(
                    f"the {what} of {self._path} name tensor {index}",
                    accepted=f"{least} to {count - 1}",
                )
        return found

    # Tensors

    def _tensor(self, table: Any, position: int) -> TfliteTensor:
        name = self._text(table.Name()) or f"tensor {position}"
        what = f"tensor '{name}'"
        shape = tuple(int(extent) for extent in self._numbers(table, "Shape"))
        stated = self._numbers(table, "ShapeSignature").tolist()
        if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < -1:
            raise UserError(
                f"{what} has the shape {list(shape[:_MOST_DIMENSIONS])}",
                accepted=f"extents of at least 0 in at most {_MOST_DIMENSIONS} dimensions",
            )
        if stated and len(stated) != len(shape):
            raise UserError(f"{what} has two shapes: {list(shape)} and {stated[:16]}")
        unknown = stated or shape
        dynamic = tuple(axis for axis, extent in enumerate(unknown) if extent < 0)
        dtype = names_of("TensorType").get(table.Type(), f"number {table.Type()}").lower()
        if dtype not in DTYPES:
            raise UserError(f"{what} has the element type {dtype}", accepted=", ".join(DTYPES))
        if table.Sparsity() is not None:
            raise UserError(f"{what} is sparse", accepted="dense tensors")
        quantization = self._quantization(table, what, shape, dtype)
        data = self._data(table, what, shape, dtype)
        return TfliteTensor(name, shape, dtype, quantization, data, dynamic)

    def _quantization(self, table: Any, what: str, shape: Shape, dtype: str) -> Quantization | None:
        held = table.Quantization()
        if held is None or np.dtype(dtype).kind not in "iu":
            return None
        scales = self._numbers(held, "Scale").astype(np.float32)
        zeros = self._numbers(held, "ZeroPoint").astype(np.int64)
        if not scales.size:
            return None
        axis = None if scales.size == 1 else int(held.QuantizedDimension())
        if axis is not None and not 0 <= axis < len(shape):
            raise UserError(
                f"{what} has scales along axis {axis}", accepted=f"0 to {len(shape) - 1}"
            )
        wanted = 1 if axis is None else shape[axis]
        if scales.size != wanted or zeros.size not in (0, wanted):
            raise UserError(
                f"{what} has {scales.size} scales and {zeros.size} zero points",
                accepted=f"{wanted} of each",
            )
        if dtype == "int32" and not (np.isfinite(scales) & (scales > 0)).all():
            return None  # of a bias, which is in units of sums whatever it says
        if not np.isfinite(scales).all() or (scales <= 0).any():
            raise UserError(
                f"{what} has a scale of {scales.min()}", accepted="positive finite numbers"
            )
        ends = np.iinfo(dtype)
        if zeros.size and not ends.min <= zeros.min() <= zeros.max() <= ends.max:
            raise UserError(
                f"{what} has zero points of {zeros.min()} to {zeros.max()}",
                accepted=f"{ends.min} to {ends.max}",
            )
        points = zeros.tolist() or [0] * scales.size
        return Quantization(tuple(map(float, scales)), tuple(points), axis)

    def _data(self, table: Any, what: str, shape: Shape, dtype: str) -> Array | None:
        number, count = table.Buffer(), self._root.BuffersLength()
        if not number:
            return None
        if number >= count:
            raise UserError(f"{what} names buffer {number}", accepted=f"0 to {count - 1}")
        if number not in self._buffers:
            buffer = self._root.Buffers(number)
            if buffer.Offset() > 1:
                raise UserError(
                    f"{what} has its elements behind the model", accepted="constants in the model"
                )
            self._buffers[number] = self._numbers(buffer, "Data")
        content = self._buffers[number]
        if not content.size:
            return None
        wanted = prod(shape) * np.dtype(dtype).itemsize
        if content.nbytes != wanted:
            raise UserError(
                f"the constant '{what[8:-1]}' has {content.nbytes} bytes",
                accepted=f"{wanted}: it is {dtype}{list(shape)}",
            )
        return np.frombuffer(content.tobytes(), dtype).reshape(shape)

    # Operators

    def _code(self, table: Any, position: int) -> tuple[str, str, int]:
        number = max(table.DeprecatedBuiltinCode(), table.BuiltinCode())
        known = names_of("BuiltinOperator")
        if number not in known:
            raise UserError(
                f"operator code {position} of {self._path} is {number}",
                accepted=f"those of TFLite's schema, 0 to {max(known)}",
            )
        return known[number], self._text(table.CustomCode()), table.Version()

    def _operator(
        self, table: Any, position: int, codes: tuple[tuple[str, str, int], ...], tensors: int
    ) -> TfliteOperator:
        what = f"operator {position}"
        if not 0 <= table.OpcodeIndex() < len(codes):
            raise UserError(
                f"{what} of {self._path} has the operator code {table.OpcodeIndex()}",
                accepted=f"0 to {len(codes) - 1}",
            )
        operator, code, version = codes[table.OpcodeIndex()]
        if table.BuiltinOptions2Type():
            raise UserError(
                f"{what} of {self._path} is {operator}, of StableHLO",
                accepted="operators of TFLite",
                next_step="convert the model without serializing it to StableHLO",
            )
        inputs = self._indices(table, "Inputs", f"{what} inputs", tensors)
        outputs = self._indices(table, "Outputs", f"{what} outputs", tensors)
        if min(outputs, default=-1) < 0:
            raise UserError(f"{what} of {self._path} ({operator}) has no output")
        kind, options = self._options(table, what)
        custom = self._numbers(table, "CustomOptions").tobytes()
        return TfliteOperator(operator, inputs, outputs, kind, options, code, custom, version)

    def _options(self, table: Any, what: str) -> tuple[str, dict[str, Any]]:
        number = table.BuiltinOptionsType()
        kind = names_of("BuiltinOptions").get(number)
        if kind is None:
            raise UserError(
                f"{what} of {self._path} has options of type {number}",
                accepted=f"0 to {max(names_of('BuiltinOptions'))}",
            )
        held = table.BuiltinOptions()
        if not number or held is None:
            return "", {}
        options = table_class(kind)()
        options.Init(held.Bytes, held.Pos)
        self._charge(_TABLE_BYTES)
        return kind, {
            name: self._numbers(options, name) if is_vector else _plain(getattr(options, name)())
            for name, is_vector in fields_of(kind).items()
        }


_ENDS = ("Inputs", "Outputs")


def _plain(value: Any) -> Any:
    """A number, truth value or text of a table."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
