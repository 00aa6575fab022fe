"""Kernels that leave out their schedules: space, default and textbook are derived."""

from __future__ import annotations

import pytest

from tests.rig.derived_u8 import KERNELS
from tuner.conformance.kernels import KernelCodeConformance, KernelConformance
from tuner.errors import UserError
from tuner.kernels import EXTRA_KERNELS_VARIABLE, attached_kernel, find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")


@pytest.fixture(scope="module", autouse=True)
def registered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        yield


@pytest.mark.nightly
class TestDerivedKernel(KernelConformance):
    name = "across_u8"


@pytest.mark.nightly
class TestCodeOfDerivedKernel(KernelCodeConformance):
    name = "across_u8"


@pytest.mark.slow
def test_a_compile_worker_schedules_it_as_its_client_does():
    kernel = find_kernel("across_u8")
    problem = kernel.problem({}, Contract.STRIDE, TARGET)
    attached = attached_kernel(kernel.name, kernel.attachment(problem))
    assert attached.source == kernel.source
    config = kernel.textbook_config(problem)
    assert attached.schedule(problem, config) == kernel.schedule(problem, config)


@pytest.mark.slow
def test_names_that_differ_from_the_buffers_are_told():
    kernel = find_kernel("misnamed_u8")
    with pytest.raises(UserError, match="out, output"):
        kernel.space(kernel.problem({}, Contract.STATIC, TARGET))
