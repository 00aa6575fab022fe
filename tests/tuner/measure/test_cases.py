"""Verification cases: what inputs a candidate is tried on."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.conformance.candidates import scale_problem
from tuner.kernels import Kernel, Param, find_kernel
from tuner.kernels.derived import DerivedKernel
from tuner.kernels.shapes import FAR, LARGE_BYTES, MOST_WORK
from tuner.measure.cases import Case, cases_of, far_shapes_of
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.records.candidate import Problem


class SquareU8(DerivedKernel):
    """Sums along what is as long as rows of its output: work grows with the square of these."""

    name = "square_u8"
    summary = "each element times all of its row"
    text = """
def square_u8(height: size, width: size, input: u8[height, width]):
    for y, x in ...:
        total[y, x] = u32(0)
    for y, x, r in ..., ..., range(width):
        total[y, x] += u32(input[y, x]) * u32(input[y, r])
    for y, x in range(height), range(width):
        output[y, x] = u8(total[y, x])
    return output
"""
    params = (Param("width", 256, "elements of a row"), Param("height", 16, "rows"))


class CubeU8(DerivedKernel):
    """Reads much more than it writes."""

    name = "cube_u8"
    summary = "a row of each layer"
    text = """
def cube_u8(size: size, input: u8[size, size, size]):
    for y, x in range(size), range(size):
        output[y, x] = input[y, x, x]
    return output
"""
    params = (Param("size", 64, "of each side"),)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"scale_u8": "tests.rig.scale_u8:ScaleU8"}
    found |= {one.name: f"{__name__}:{one.__name__}" for one in (SquareU8, CubeU8)}
    monkeypatch.setenv("HVXTUNE_KERNELS", ",".join(f"{k}={v}" for k, v in found.items()))


def default_problem(kernel: Kernel) -> Problem:
    return kernel.problem(None, Contract.NONE, find_target(DEFAULT_TARGET))


def inputs_of(case: Case) -> list[np.ndarray]:
    return [a.elements for a in case.arguments if a.spec.role == "input"]


def test_the_timed_case_is_random_and_the_others_go_to_the_extremes() -> None:
    first, extremes, most, zeros = cases_of(scale_problem()).cases
    assert len(np.unique(inputs_of(first)[0])) > 200
    assert set(np.unique(inputs_of(extremes)[0])) == {0, 255}
    assert set(np.unique(inputs_of(most)[0])) == {255}
    assert set(np.unique(inputs_of(zeros)[0])) == {0}


@pytest.mark.parametrize("contract", list(Contract))
def test_only_open_shapes_are_tried_in_other_shapes(contract: Contract) -> None:
    shapes = {
        case.arguments[0].spec.shape for case in cases_of(scale_problem(contract, n=512)).cases
    }
    assert (len(shapes) > 1) == (contract is not Contract.STATIC)


def test_cases_of_one_shape_lie_in_ways_that_no_other_does() -> None:
    cases = cases_of(scale_problem(Contract.NONE)).cases
    alike = [case for case in cases if case.arguments[0].spec == cases[0].arguments[0].spec]
    layouts = {case.arguments[0].layout for case in alike}
    assert len(layouts) > len(alike) // 2


def test_far_shapes_take_bounded_work() -> None:
    kernel = find_kernel("square_u8")
    (found,) = far_shapes_of(default_problem(kernel))
    assert found["height"] >= FAR - 1 > found["width"]
    assert kernel.work(found).total <= MOST_WORK


def test_shapes_that_all_code_is_verified_in_are_not_large() -> None:
    kernel = find_kernel("cube_u8")
    for shape in kernel.verified_shapes(default_problem(kernel)).values():
        assert sum(spec.payload_bytes for spec in kernel.buffers(shape)) <= LARGE_BYTES
