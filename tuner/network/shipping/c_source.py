"""The C of a bundle: a header with one entry point, and a source of straight calls.

No allocation, no state: all tensors between the caller's inputs and outputs lie at fixed offsets of
the arena. Names of C begin with the bundle's, so that several fit into one program.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from tuner.kernels import find_kernel
from tuner.network.graph import Array, Graph, Node, Tensor
from tuner.network.layers import Layer, limits_of
from tuner.network.operators import HOST
from tuner.network.reading.model_file import suffix_of_host_node
from tuner.network.running.storage import Storage
from tuner.network.shipping.edges import Edges
from tuner.network.shipping.program import (
    C_TYPES,
    FLIP,
    Call,
    Copy,
    Fill,
    Memory,
    Operation,
    Outside,
    Place,
    Program,
    operands_of,
)
from tuner.problem.target import Target
from tuner.problem.workload import Workload

STATUSES = {
    "OK": 0,
    "BAD_ARENA": 1,
    "BAD_TENSOR": 2,
    "STEP_FAILED": 16,
}
"""The results of the entry point; of a step that failed, ``STEP_FAILED`` and its number."""
SHARED = ("halide_buffer.h", "copy.h", "layers.h")
"""Headers that every source includes."""


@dataclass(frozen=True)
class Contents:
    """A network as a bundle has it: its ``graph`` without its ``edges``, as a ``program`` for
    ``target``. ``name`` is the C identifier it is called by."""

    name: str
    graph: Graph
    edges: Edges
    layers: Sequence[Layer]
    program: Program
    target: Target

    @property
    def macro(self) -> str:
        """The beginning of its constants' names."""
        return self.name.upper()

    @property
    def entry(self) -> str:
        """The one function that a program calls."""
        return f"{self.name}_run"

    @property
    def constants_symbol(self) -> str:
        """All constants, in an object."""
        return f"{self.name}__constants"

    def function_symbol(self, function: int) -> str:
        """The entry of the object of a function."""
        kernel = self.program.functions[function].kernel.replace(":", "_")
        return f"{self.name}__{kernel}_{function}"

    def ends(self) -> list[tuple[str, Tensor]]:
        """The inputs and outputs, by the names that constants and parameters have."""
        found = []
        for kind, names in (("input", self.graph.inputs), ("output", self.graph.outputs)):
            for number, name in enumerate(names):
                called = kind if len(names) == 1 else f"{kind}_{number}"
                found.append((called, self.graph.tensors[name]))
        return found

    def in_c(self, layer: int) -> str:
        """The function of ``layers.h`` that computes the layer at this place; else empty."""
        return "hvxtune_mean_pool" if self.layers[layer].node.operator == "average_pool" else ""

    def outside(self) -> dict[int, str]:
        """The functions that the program brings, by the place of their layer."""
        made: dict[int, str] = {}
        for operation in self.program.operations:
            if isinstance(operation, Outside) and not self.in_c(operation.layer):
                layer = re.sub(r"\W", "_", self.layers[operation.layer].node.name, flags=re.ASCII)
                name = f"{self.name}_layer_{layer}"
                again = f"{name}_{operation.layer}"
                made[operation.layer] = again if name in made.values() else name
        return made


def header(contents: Contents) -> str:
    """``NAME.h``."""
    name, macro = contents.name, contents.macro
    alignment = contents.target.vector_alignment_bytes
    lines = [
        f"/* {_text(contents.graph.name)} on {contents.target.name}.",
        " * Made by `hvxtune network bundle`.",
        " *",
        f" *   static _Alignas({macro}_ALIGNMENT_BYTES) uint8_t arena[{macro}_ARENA_BYTES];",
        f" *   int status = {contents.entry}({', '.join(c for c, _ in contents.ends())}, arena);",
        " *",
        *(f" * {line}" for line in _edge_lines(contents.edges)),
        " * Tensors are dense, in the order of dimensions that the network has. A real number is",
        " * SCALE * (element - ZERO_POINT). Calls may overlap if each has an arena and outputs",
        " * of its own; nothing else is kept between calls.",
        " */",
        f"#ifndef HVXTUNE_{macro}_NETWORK_H",
        f"#define HVXTUNE_{macro}_NETWORK_H",
        "",
        "#include <stdint.h>",
        "",
        f"#if defined(__HEXAGON_ARCH__) && __HEXAGON_ARCH__ < {contents.target.arch[1:]}",
        f'#error "{name}: made for {contents.target.name}, newer than what this is compiled for"',
        "#endif",
        "",
        f"#define {macro}_ARENA_BYTES {contents.program.arena.size_bytes}",
        f"#define {macro}_ALIGNMENT_BYTES {alignment} /* of the arena, at least */",
        "",
    ]
    for called, tensor in contents.ends():
        lines += [*_constants(f"{macro}_{called.upper()}", tensor), ""]
    lines += [
        f"/* {contents.entry}() returns 0, or:",
        f" *   {macro}_BAD_ARENA    the arena is NULL or not aligned",
        f" *   {macro}_BAD_TENSOR   an input or output is NULL",
        f" *   {macro}_STEP_FAILED + n   step n of the manifest returned other than 0",
        " */",
        "enum {",
        *(f"    {macro}_{status} = {value}," for status, value in STATUSES.items()),
        "};",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"int {contents.entry}({', '.join(_parameters(contents))});",
        *_outside_lines(contents),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "",
        "#endif",
    ]
    return "\n".join(lines) + "\n"


def _edge_lines(edges: Edges) -> Iterator[str]:
    for node in edges.quantize:
        yield f"The caller does layer '{_text(node.name)}' before: it quantizes an input."
    for node in edges.dequantize:
        yield f"The caller does layer '{_text(node.name)}' after: it makes real numbers."


def _constants(prefix: str, tensor: Tensor) -> Iterator[str]:
    shape = ", ".join(map(str, tensor.shape))
    yield f"/* '{_text(tensor.name)}' */"
    yield f"#define {prefix}_TYPE {C_TYPES[tensor.dtype]}"
    yield f"#define {prefix}_RANK {len(tensor.shape)}"
    if tensor.shape:
        yield f"#define {prefix}_SHAPE {{{shape}}}"
    yield f"#define {prefix}_ELEMENTS {tensor.elements}"
    found = tensor.quantization
    if found is not None and not found.per_channel:
        yield f"#define {prefix}_SCALE {_float(found.scale[0])}"
        yield f"#define {prefix}_ZERO_POINT ({found.zero_point[0]})"


def _float(value: float | np.floating[Any]) -> str:
    """A float32 in C, exactly."""
    text = f"{np.float32(value):.9g}"
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def _text(text: str) -> str:
    """``text`` in a comment of C, whatever it is: in one line that ends no comment."""
    printable = "".join(c if c.isprintable() else " " for c in text)
    return printable.replace("*/", "* /").replace("/*", "/ *").replace("\\", "|")


def _outside_lines(contents: Contents) -> Iterator[str]:
    """The functions that the program brings, each with what it must compute."""
    named = contents.outside()
    if named:
        yield ""
        yield "/* Layers without a kernel: your program defines these. They return 0, or what ends"
        yield f" * {contents.entry}(). Operands and results are dense. */"
    for place, symbol in named.items():
        node = contents.layers[place].node
        tensors = contents.graph.tensors
        operands = [tensors[name] for name in operands_of(node)]
        results = [tensors[name] for name in node.outputs]
        yield ""
        operator = node.source if node.operator == HOST else node.operator
        yield f"/* {_text(node.name)}: {_text(operator)}{_attributes(node)}"
        if node.operator == HOST:
            model = contents.graph.constant(node.inputs[-1])
            yield f" * {node_model(symbol, model)} is this node as a model of its own."
        for called, tensor in _called(operands, results):
            yield f" *   {called}: {_described(tensor)}"
        yield " */"
        yield f"int {symbol}({', '.join(_outside_parameters(operands, results))});"


def _called(operands: Sequence[Tensor], results: Sequence[Tensor]) -> Iterator[tuple[str, Tensor]]:
    for kind, tensors in (("operand", operands), ("result", results)):
        for number, tensor in enumerate(tensors):
            yield (kind if len(tensors) == 1 else f"{kind}_{number}"), tensor


def _outside_parameters(operands: Sequence[Tensor], results: Sequence[Tensor]) -> Iterator[str]:
    for called, tensor in _called(operands, results):
        const = "const " if called.startswith("operand") else ""
        yield f"{const}{C_TYPES[tensor.dtype]} *{called}"


def node_model(symbol: str, model: Array | None) -> str:
    """The file of the bundle with the node that the function ``symbol`` computes, as ``model``."""
    return f"layers/{symbol}{suffix_of_host_node(b'' if model is None else model.tobytes())}"


def _attributes(node: Node) -> str:
    if node.operator == HOST or not node.attributes:
        return ""
    return f" {_text(json.dumps(dict(node.attributes)))}"


def _described(tensor: Tensor) -> str:
    text = f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]"
    found = tensor.quantization
    if found is not None and not found.per_channel:
        text += f", scale {_float(found.scale[0])}, zero point {found.zero_point[0]}"
    return f"{text}, '{_text(tensor.name)}'"


def source(contents: Contents) -> str:
    """``NAME.c``."""
    program = contents.program
    checked = " || ".join(f"{called} == NULL" for called, _ in contents.ends())
    constants = contents.constants_symbol
    lines = [
        f"/* The steps of {_text(contents.graph.name)}. Made by `hvxtune network bundle`. */",
        f'#include "{contents.name}.h"',
        "",
        "#include <stddef.h>",
        "",
        *(f'#include "{name}"' for name in SHARED),
        "",
        *([f"extern const uint8_t {constants}[];", ""] if program.constants.size else []),
    ]
    for function, workload in enumerate(program.functions):
        lines += [*_wrapper(contents.function_symbol(function), function, workload), ""]
    lines += [
        "#define STEP(number, call) \\",
        "    if ((call) != 0) \\",
        f"    return {contents.macro}_STEP_FAILED + (number)",
        "",
        f"int {contents.entry}({', '.join(_parameters(contents))}) {{",
        "    uint8_t *const a = arena;",
        *([f"    const uint8_t *const c = {constants};"] if program.constants.size else []),
        f"    if (arena == NULL || (uintptr_t)arena % {contents.macro}_ALIGNMENT_BYTES != 0)",
        f"        return {contents.macro}_BAD_ARENA;",
        f"    if ({checked})",
        f"        return {contents.macro}_BAD_TENSOR;",
    ]
    for number, operation in enumerate(program.operations):
        if number in program.fetches:
            offset, size = program.fetches[number]
            lines.append(f"    hvxtune_fetch(c + {offset}, {size});")
        lines += _step(contents, number, operation)
    lines += [f"    return {contents.macro}_OK;", "}"]
    return "\n".join(lines) + "\n"


def _parameters(contents: Contents) -> Iterator[str]:
    for called, tensor in contents.ends():
        const = "const " if called.startswith("input") else ""
        yield f"{const}{C_TYPES[tensor.dtype]} *{called}"
    yield "void *arena"


def _wrapper(symbol: str, function: int, workload: Workload) -> Iterator[str]:
    """A call of an object's function with the buffers that its workload has."""
    specs = find_kernel(workload.kernel).buffers(workload.params)
    dimensions: list[str] = []
    buffers: list[str] = []
    for number, spec in enumerate(specs):
        extents = spec.shape[::-1]
        dtype = np.dtype(spec.dtype)
        buffers.append(
            f"        {{.host = (uint8_t *)b{number}, .type_code = {'iuf'.index(dtype.kind)}, "
            f".type_bits = {dtype.itemsize * 8}, .type_lanes = 1, .dimensions = {len(extents)}, "
            f".dim = (struct halide_dimension *)dim + {len(dimensions)}}},"
        )
        dimensions += [
            f"        {{0, {extent}, {prod(extents[:axis])}, 0}},"
            for axis, extent in enumerate(extents)
        ]
    pointers = ", ".join(["struct halide_buffer *"] * len(specs))
    given = [
        f"{'const ' if spec.role == 'input' else ''}uint8_t *b{number}"
        for number, spec in enumerate(specs)
    ]
    yield f"/* {_text(workload.label)} */"
    yield f"int {symbol}({pointers});"
    yield f"static int call_{function}({', '.join(given)}) {{"
    yield "    static const struct halide_dimension dim[] = {"
    yield from dimensions
    yield "    };"
    yield "    struct halide_buffer b[] = {"
    yield from buffers
    yield "    };"
    yield f"    return {symbol}({', '.join(f'&b[{number}]' for number in range(len(specs)))});"
    yield "}"


def _step(contents: Contents, number: int, operation: Operation) -> Iterator[str]:
    match operation:
        case Call():
            layer = contents.layers[operation.layer].node.name
            given = ", ".join(_place(contents, place) for place in operation.arguments)
            yield f"    STEP({number}, call_{operation.function}({given})); /* {_text(layer)} */"
        case Copy():
            arrays = ", ".join(
                f"{called}[] = {{{', '.join(map(str, values))}}}"
                for called, values in _strides(operation).items()
            )
            ends = [_place(contents, place) for place in (operation.source, operation.target)]
            yield f"    {{ /* {number}: {_text(operation.tensor)} */"
            yield f"        static const int32_t {arrays};"
            yield (
                f"        hvxtune_copy((const uint8_t *){ends[0]}, (uint8_t *){ends[1]}, "
                f"{operation.flip}, {len(operation.extents)}, extent, from, to);"
            )
            yield "    }"
        case Fill():
            filled = _place(contents, operation.target)
            yield (
                f"    hvxtune_fill({filled}, {operation.value}, {operation.size_bytes}); "
                f"/* {number}: {_text(operation.tensor)} */"
            )
        case Outside() if contents.in_c(operation.layer):
            (source,), (target,) = operation.operands, operation.results
            node = contents.layers[operation.layer].node
            yield f"    {{ /* {number}: {_text(node.name)} */"
            yield from mean_pool(contents.graph, node)
            yield (
                f"        {contents.in_c(operation.layer)}((const uint8_t *)"
                f"{_place(contents, source)}, (uint8_t *){_place(contents, target)}, "
                "&windows, scale);"
            )
            yield "    }"
        case Outside():
            node = contents.layers[operation.layer].node
            names = [*operands_of(node), *node.outputs]
            places = [*operation.operands, *operation.results]
            given = ", ".join(
                f"({'const ' if position < len(operation.operands) else ''}"
                f"{C_TYPES[contents.graph.tensors[name].dtype]} *){_place(contents, place)}"
                for position, (name, place) in enumerate(zip(names, places, strict=True))
            )
            yield f"    STEP({number}, {contents.outside()[operation.layer]}({given}));"


def mean_pool(graph: Graph, node: Node) -> Iterator[str]:
    """``windows`` and ``scale`` of ``hvxtune_mean_pool()`` for ``node``, with scales in float32 as
    :mod:`tuner.network.reference` has them."""
    attributes = node.attributes
    image, made = (graph.tensors[name] for name in (node.inputs[0], node.outputs[0]))
    assert image.quantization is not None  # noqa: S101 - integer nodes are quantized
    assert made.quantization is not None  # noqa: S101
    (down, across), (top, left, _, _) = attributes["kernel"], attributes["pads"]
    by_count = not attributes["count_padding"] and any(attributes["pads"])
    counts = np.arange(1, down * across + 1) if by_count else np.array([down * across])
    out = np.float32(made.quantization.scale[0])
    scales = np.float32(image.quantization.scale[0]) / (out * counts.astype(np.float32))
    flip = FLIP if made.dtype == "int8" else 0
    numbers = {
        "from": _image(image, attributes["layout"]),
        "to": _image(made, attributes["layout"]),
        "batch": image.shape[0],
        "size": _pair(down, across),
        "stride": _pair(*attributes["strides"]),
        "dilation": _pair(*attributes.get("dilations", (1, 1))),
        "before": _pair(top, left),
        "flip": flip,
        "from_zero": image.quantization.zero_point[0] + flip,
        "to_zero": made.quantization.zero_point[0] + flip,
        "low": limits_of(graph, node)[0],
        "high": limits_of(graph, node)[1],
        "by_count": int(by_count),
    }
    yield "        static const struct hvxtune_windows windows = {"
    yield from (f"            .{field} = {value}," for field, value in numbers.items())
    yield "        };"
    of_none = ["0.0f"] * by_count
    yield f"        static const float scale[] = {{{', '.join([*of_none, *map(_float, scales)])}}};"


def _pair(rows: int, columns: int) -> str:
    return f"{{{rows}, {columns}}}"


def _image(tensor: Tensor, layout: str) -> str:
    """``struct hvxtune_image`` of a dense batch of images."""
    strides = Storage.of(tensor.shape).strides
    axes = (1, 2, 3) if layout == "nchw" else (3, 1, 2)
    extents = [tensor.shape[axis] for axis in axes]
    return f"{{{', '.join(map(str, [*extents, *(strides[axis] for axis in (0, *axes))]))}}}"


def _strides(copy: Copy) -> Mapping[str, tuple[int, ...]]:
    return {"extent": copy.extents, "from": copy.source_strides, "to": copy.target_strides}


def _place(contents: Contents, place: Place) -> str:
    """A pointer in C."""
    match place.memory:
        case Memory.ARENA:
            return f"(a + {contents.program.arena.offsets[place.number] + place.offset_bytes})"
        case Memory.CONSTANTS:
            return f"(c + {place.offset_bytes})"
        case Memory.INPUT:
            called = contents.ends()[place.number][0]
        case Memory.OUTPUT:
            called = contents.ends()[len(contents.graph.inputs) + place.number][0]
    if place.offset_bytes:
        return f"((uint8_t *){called} + {place.offset_bytes})"
    return called
