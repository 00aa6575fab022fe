"""TFLite files that cannot be read: one line that names the tensor or operator; never a traceback.

The package that reads them checks nothing, so any byte may be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rig.models.channels_last import NETWORKS
from tests.rig.models.twins import TfliteWriter
from tuner.errors import UserError
from tuner.network import Graph
from tuner.network.reading import tflite_reader
from tuner.network.reading import tflite_writing as writing
from tuner.network.reading.tflite_file import TfliteModel

BLOCK = TfliteWriter(NETWORKS["block"](per_channel=True)).model()
CONTENT = writing.written(BLOCK)
Spoil = Callable[[TfliteModel], TfliteModel]


def read(content: bytes, **axes: int) -> Graph:
    return tflite_reader.read(content, "model.tflite", axes)


def with_tensor(index: int, **fields: Any) -> Spoil:
    def spoil(model: TfliteModel) -> TfliteModel:
        tensors = [*model.tensors]
        tensors[index] = replace(tensors[index], **fields)
        return replace(model, tensors=tuple(tensors))

    return spoil


def with_operator(position: int, **fields: Any) -> Spoil:
    def spoil(model: TfliteModel) -> TfliteModel:
        operators = [*model.operators]
        operators[position] = replace(operators[position], **fields)
        return replace(model, operators=tuple(operators))

    return spoil


def with_options(position: int, **options: Any) -> Spoil:
    def spoil(model: TfliteModel) -> TfliteModel:
        held = model.operators[position]
        return with_operator(position, options={**held.options, **options})(model)

    return spoil


FIRST = BLOCK.operators[0]
IMAGE, WEIGHTS, BIAS = FIRST.inputs
KERNEL = BLOCK.tensors[WEIGHTS]
WORDS = (0, 1, -1, 2, 4, 8, 13, 64, 127, 1000, 1 << 16, (1 << 31) - 1, -(1 << 31))


def backwards(model: TfliteModel) -> TfliteModel:
    return replace(model, operators=model.operators[::-1])


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (backwards, "which nothing before it makes"),
        (with_operator(0, inputs=(IMAGE, -1, BIAS)), "'CONV_2D 0' (CONV_2D) has no input 1"),
        (with_options(0, StrideH=0), "'CONV_2D 0'"),
        (with_tensor(IMAGE, quantization=None), "int8 without a scale"),
        (with_tensor(WEIGHTS, shape=(1 << 30, 1 << 30)), KERNEL.name),
        (with_tensor(IMAGE, shape=(1, 16, 16, 5)), "do not fit 5 channels"),
        (with_tensor(IMAGE, dynamic=(0,)), "add --axis t0:0=1"),
        (lambda model: replace(model, outputs=(WEIGHTS + 500,)), "the outputs of"),
    ],
)
def test_a_model_that_is_wrong_is_refused_by_name(spoil: Spoil, named: str) -> None:
    with pytest.raises(UserError) as refused:
        read(writing.written(spoil(BLOCK)))
    assert named in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_vector_that_claims_more_than_the_file_is_refused() -> None:
    """As its operators."""
    content = bytearray(CONTENT)
    graph = tflite.Model.GetRootAs(CONTENT).Subgraphs(0)
    lengths = graph._tab.Vector(graph._tab.Offset(10)) - 4  # of its fourth field, the operators
    assert struct.unpack_from("<I", content, lengths) == (len(BLOCK.operators),)
    for length in (len(BLOCK.operators) + 1, 90_000, 1 << 31, (1 << 32) - 1):
        struct.pack_into("<I", content, lengths, length)
        with pytest.raises(UserError):
            read(bytes(content))


def test_parts_that_overlap_are_refused() -> None:
    """Many tensors with one table would be more than the file has."""
    builder = flatbuffers.Builder(0)
    shape = builder.CreateNumpyVector(np.ones(12, np.int32))
    name = builder.CreateString("n" * 4000)
    tensor = writing._table(builder, "Tensor", Shape=shape, Name=name)
    tensors = writing._offsets(builder, [tensor] * 20_000)
    operators = writing._offsets(builder, [writing._table(builder, "Operator")])
    graph = writing._table(builder, "SubGraph", Tensors=tensors, Operators=operators)
    graphs = writing._offsets(builder, [graph])
    builder.Finish(writing._table(builder, "Model", Version=3, Subgraphs=graphs), b"TFL3")
    with pytest.raises(UserError, match="overlap"):
        read(bytes(builder.Output()))


def require_graph_or_line(content: bytes) -> None:
    """A graph that passes all checks again, or an error of one line."""
    refused = None
    try:
        graph = read(content)
    except UserError as error:
        refused = str(error)
    if refused is None:
        assert Graph.from_dict(graph.as_dict(), graph.data).digest == graph.digest
    else:
        assert "\n" not in refused


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(0, len(CONTENT) - 1), st.integers(0, 255)), min_size=1, max_size=6
    ),
    st.integers(0, len(CONTENT)),
    st.booleans(),
)
def test_any_bytes_are_a_graph_or_one_line(
    changes: list[tuple[int, int]], end: int, truncated: bool
) -> None:
    spoilt = bytearray(CONTENT)
    for place, value in changes:
        spoilt[place] = value
    require_graph_or_line(bytes(spoilt[:end] if truncated else spoilt))


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_any_word_may_be_wrong(data: st.DataObject) -> None:
    """Offsets, lengths and numbers where a file has them: aligned words."""
    spoilt = bytearray(CONTENT)
    for _ in range(data.draw(st.integers(1, 3))):
        place = 4 * data.draw(st.integers(0, len(CONTENT) // 4 - 1))
        word = data.draw(st.one_of(st.sampled_from(WORDS), st.integers(-(1 << 31), (1 << 31) - 1)))
        struct.pack_into("<i", spoilt, place, word)
    require_graph_or_line(bytes(spoilt))
