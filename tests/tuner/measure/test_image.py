"""The memory image: where buffers lie, and that no changed byte goes unnoticed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rig.scale_u8 import ScaleU8
from tuner.conformance.candidates import scale_problem
from tuner.measure.cases import CaseSet, case_of, poison
from tuner.measure.image import Image, image_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")
PAGE = 1 << 16


def make_image(contract: Contract, n: int = 500, cases: int = 2) -> Image:
    problem = scale_problem(contract, n=n)
    specs = ScaleU8().buffers(problem.workload.params)
    source = np.arange(4 * n, dtype=np.uint8).reshape(4, n)
    case = case_of("counting", specs, [source, source + np.uint8(1)], contract, TARGET)
    return image_of(CaseSet((case,) * cases), TARGET)


@pytest.mark.parametrize("contract", list(Contract))
def test_buffers_are_aligned_as_promised_and_no_more(contract: Contract) -> None:
    alignment = TARGET.vector_alignment_bytes
    for starts in make_image(contract, n=512).starts:
        for start in starts:
            if contract is Contract.NONE:
                assert start % alignment != 0
            else:
                assert start % (2 * alignment) == alignment


def test_every_bit_that_nobody_wrote_differs_between_two_runs() -> None:
    one, other = poison(0), poison(1)
    assert np.all(one ^ other == 0xFF)
    assert np.all(one)
    assert np.all(other)


def test_red_zones_part_all_buffers() -> None:
    image = make_image(Contract.STATIC)
    spans = sorted(
        (start, start + argument.layout.span_bytes)
        for case, starts in zip(image.cases.cases, image.starts, strict=True)
        for argument, start in zip(case.arguments, starts, strict=True)
    )
    for (_, end), (start, _) in itertools.pairwise(spans):
        assert start - end >= 8 * TARGET.vector_bytes
    assert image.before.size - spans[-1][1] >= 8 * TARGET.vector_bytes


def test_a_run_that_wrote_what_the_reference_says_differs_nowhere() -> None:
    image = make_image(Contract.STRIDE)
    assert image.difference(image.after) is None
    assert image.difference(image.before) is not None


def test_the_report_may_say_anything() -> None:
    image = make_image(Contract.STATIC)
    returned = image.after.copy()
    returned[image.report_offset : image.report_offset + 8] = [2, 0, 0, 0, 0xF9, 0xFF, 0xFF, 0xFF]
    returned[image.report_offset + 16 : image.report_offset + 21] = list(b"ouch!")
    assert image.difference(returned) is None
    report = image.report(returned)
    assert (report.finished_cases, report.result, report.message) == (2, -7, "ouch!")


@given(data=st.data())
def test_any_other_changed_byte_is_noticed(data: st.DataObject) -> None:
    image = make_image(data.draw(st.sampled_from([Contract.NONE, Contract.STRIDE])))
    at = data.draw(st.integers(0, image.after.size - 1))
    returned = image.after.copy()
    returned[at] ^= data.draw(st.integers(1, 255))
    in_report = image.report_offset <= at < image.report_offset + PAGE
    assert (image.difference(returned) is None) == in_report


@pytest.mark.parametrize(
    ("contract", "offset_from_output", "says"),
    [
        (Contract.STATIC, -1, "wrote 1 bytes before output"),
        (Contract.STATIC, 4 * 500 + 9, "wrote 10 bytes past the end of output"),
        (Contract.STRIDE, 500, "in the row padding of output"),
        (Contract.STATIC, 500 + 3, "output[1, 3] is"),
        (Contract.STATIC, 2 * 500 - 1, "output[1, 499] is"),
    ],
)
def test_the_message_says_where(contract: Contract, offset_from_output: int, says: str) -> None:
    image = make_image(contract)
    returned = image.after.copy()
    returned[image.starts[1][1] + offset_from_output] ^= 1
    assert says in str(image.difference(returned))
