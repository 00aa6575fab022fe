"""Verification cases: what inputs a candidate is tried on."""

from __future__ import annotations

import numpy as np
import pytest

from tuner.conformance.candidates import scale_problem
from tuner.measure.cases import Case, cases_of
from tuner.problem.contract import Contract


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HVXTUNE_KERNELS", "scale_u8=tests.rig.scale_u8:ScaleU8")


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
