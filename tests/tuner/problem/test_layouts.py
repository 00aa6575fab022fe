"""Layouts that a contract allows beside the usual one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tuner.problem.buffers import BufferSpec, layout_of, other_layout_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
ALIGNMENT = TARGET.vector_alignment_bytes

specs = st.builds(
    BufferSpec,
    name=st.just("b"),
    dtype=st.sampled_from(["uint8", "int8", "int32"]),
    shape=st.lists(st.integers(1, 300), min_size=1, max_size=4).map(tuple),
    role=st.just("input"),
    promised=st.booleans(),
    loose=st.integers(0, 2),
)


@given(specs, st.sampled_from(list(Contract)), st.integers(0, 30))
def test_another_layout_keeps_the_contract_and_no_two_elements_meet(
    spec: BufferSpec, contract: Contract, number: int
) -> None:
    layout = other_layout_of(spec, contract, TARGET, number)
    assert layout.strides[-1] == 1
    for (stride, inner), extent in zip(pairwise(layout.strides), spec.shape[1:], strict=True):
        assert stride >= inner * extent
    assert layout.span_bytes >= spec.shape[0] * layout.strides[0] * spec.element_bytes
    assert layout.host_offset_bytes % spec.element_bytes == 0
    if contract is not Contract.NONE and not spec.loose:
        assert layout.host_offset_bytes == 0
    if contract is Contract.STATIC and not spec.loose:
        assert layout == layout_of(spec, contract, TARGET)
    if spec.promised and not spec.loose and contract in (Contract.STRIDE, Contract.EXTENT):
        assert all(s * spec.element_bytes % ALIGNMENT == 0 for s in layout.strides[:-1])


@given(specs.filter(lambda spec: len(spec.shape) > 1))
def test_buffers_of_one_call_share_neither_strides_nor_offsets_that_are_open(
    spec: BufferSpec,
) -> None:
    first, second = (other_layout_of(spec, Contract.NONE, TARGET, n) for n in (0, 1))
    assert first.strides[0] != second.strides[0]
    assert first.strides[-2] % 2 == second.strides[-2] % 2 == 1
    assert first.host_offset_bytes % ALIGNMENT != second.host_offset_bytes % ALIGNMENT
