"""Buffers of which the contract does not hold: how they lie, what keys and callers see of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.rig.loose_u8 import KERNELS, LooseU8
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.cases import CaseSet, case_of, cases_of
from tuner.measure.image import image_of
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
ALIGNMENT = TARGET.vector_alignment_bytes


@pytest.mark.parametrize("contract", Contract)
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
@pytest.mark.parametrize("extent", [3, 256])
def test_a_loose_buffer_begins_off_vectors_and_its_rows_at_odd_strides(contract, dtype, extent):
    spec = BufferSpec("frame", dtype, (4, extent), "input", loose=1)
    layout = layout_of(spec, contract, TARGET)
    assert layout.host_offset_bytes % ALIGNMENT
    assert layout.strides[0] > extent
    assert layout.strides[0] % 2
    assert layout.span_bytes == 4 * layout.strides[0] * spec.element_bytes


def test_verified_and_timed_calls_get_loose_buffers_so_and_others_aligned():
    kernel = LooseU8()
    source = np.arange(4 * 512, dtype=np.uint8).reshape(4, 512)
    specs = kernel.buffers({"h": 4, "n": 512, "input_loose": 1})
    case = case_of("counting", specs, [source, source + np.uint8(1)], Contract.STATIC, TARGET)
    image = image_of(CaseSet((case, case)), TARGET)
    for loose, aligned in image.starts:
        assert loose % ALIGNMENT
        assert aligned % ALIGNMENT == 0
    assert image.difference(image.after) is None
    padding = image.after.copy()
    padding[image.starts[0][0] + 512] ^= 1
    assert "in the row padding of input" in str(image.difference(padding))


def test_code_must_be_right_where_a_loose_buffer_happens_to_lie_well(monkeypatch):
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    plain, loose = (
        cases_of(LooseU8().problem({"n": 500, "input_loose": value}, Contract.STATIC, TARGET)).cases
        for value in (0, 1)
    )
    names = [case.name for case in plain]
    assert [case.name for case in loose] == [*names, "random values, no buffer loose"]
    timed, last = loose[0].arguments, loose[-1].arguments
    assert [one.layout.strides[0] for one in timed] == [565, 500]
    assert [one.layout for one in last] == [one.layout for one in plain[0].arguments]
    assert all(np.array_equal(one.elements, o.elements) for one, o in zip(timed, last, strict=True))
