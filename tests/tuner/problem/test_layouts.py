"""Layouts that a contract allows beside the usual one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tuner.problem.buffers import (
    BufferLayout,
    BufferSpec,
    kept_contracts,
    layout_of,
    other_layout_of,
)
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


def keeps(layout: BufferLayout, spec: BufferSpec, contract: Contract) -> bool:
    """Whether a buffer that lies so is as ``contract`` promises."""
    if spec.loose:
        return contract is not Contract.EXTENT or not spec.promised or whole(spec)
    aligned = contract is Contract.NONE or layout.host_offset_bytes == 0
    outer = spec.promised and contract in (Contract.STRIDE, Contract.EXTENT)
    strides = not outer or all(s * spec.element_bytes % ALIGNMENT == 0 for s in layout.strides[:-1])
    return aligned and strides and (contract is not Contract.EXTENT or not outer or whole(spec))


def whole(spec: BufferSpec) -> bool:
    return spec.shape[-1] * spec.element_bytes % ALIGNMENT == 0


@given(specs, st.sampled_from(list(Contract)))
def test_a_caller_keeps_the_contracts_that_its_buffers_are_as(
    spec: BufferSpec, contract: Contract
) -> None:
    layout = layout_of(spec, contract, TARGET)
    kept = kept_contracts([spec], contract, TARGET)
    for weaker in kept:
        if contract is Contract.STATIC or weaker is not Contract.EXTENT:
            assert keeps(layout, spec, weaker)
    if contract is not Contract.STATIC:
        assert kept == tuple(one for one in Contract if contract.implies(one))
    is_open = contract is Contract.NONE or spec.loose
    assert (layout.host_offset_bytes % ALIGNMENT != 0) == bool(is_open), "aligned by promise alone"


@given(specs.filter(lambda spec: len(spec.shape) > 1))
def test_buffers_of_one_call_share_neither_strides_nor_offsets_that_are_open(
    spec: BufferSpec,
) -> None:
    first, second = (other_layout_of(spec, Contract.NONE, TARGET, n) for n in (0, 1))
    assert first.strides[0] != second.strides[0]
    assert first.strides[-2] % 2 == second.strides[-2] % 2 == 1
    assert first.host_offset_bytes % ALIGNMENT != second.host_offset_bytes % ALIGNMENT
