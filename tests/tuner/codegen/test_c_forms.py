"""Every C form against its kernel's reference: odd shapes, strict and weak contracts."""

from __future__ import annotations

import pytest

from tuner.codegen.c_forms import CGenerator, c_forms, translation_unit
from tuner.conformance.patience import PATIENCE_S
from tuner.kernels import find_kernel, kernel_names
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.space import Config

TARGET = find_target("hexagon-v66")
FORMS = [(kernel, form) for kernel in kernel_names() for form in c_forms(find_kernel(kernel))]
ODD = {
    "conv2d_u8": {"height": 5, "width": 3, "channels_in": 12, "channels_out": 33, "size": 3},
    "depthwise_conv2d_u8": {"height": 5, "width": 7, "channels": 33, "stride": 2},
    "avg_pool_u8": {"height": 3, "width": 2, "channels": 131, "size": 3},
    "max_pool_u8": {"height": 7, "width": 5, "channels": 131},
    "gemm_u8": {"m": 3, "n": 133, "k": 12},
    "gemm_i8": {"m": 3, "n": 133, "k": 12},
    "gemm_u8_packed": {"m": 3, "n": 133, "k": 15},
    "gemm_i8_packed": {"m": 3, "n": 133, "k": 15},
    "qconv2d_u8": {
        "height": 5,
        "width": 3,
        "channels_in": 12,
        "channels_out": 33,
        "size": 3,
        "stride": 2,
        "before": 1,
        "after": 0,
    },
    "qdepthwise_conv2d_u8": {"height": 5, "width": 7, "channels": 33, "stride": 2},
    "qgemm_u8": {"m": 3, "n": 133, "k": 12},
}
OTHERWISE = {"width": 131, "height": 3}


@pytest.fixture(scope="module")
def generator():
    with CGenerator(1, time_limit_s=PATIENCE_S) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FORMS)))
def test_a_form_is_right_for_odd_shapes(generator, number):
    """Under the weakest contract and the strictest in turn."""
    kernel, form = FORMS[number]
    contract = (Contract.NONE, Contract.STATIC)[number % 2]
    found = find_kernel(kernel)
    problem = found.problem(ODD.get(kernel, OTHERWISE), contract, TARGET)
    config = Config({**generator.starts(found, problem)["default"], "c_form": form})
    artifact = generator.compile(Candidate(problem, config, generator.name))
    with QemuMeasurer() as measurer:
        assert measurer.measure(problem, artifact).measurement.verified


def test_the_loops_know_what_the_contract_says_of_alignment():
    """Where they are: clang forgets what only the caller of their function knows."""
    kernel = find_kernel("lut_u8")
    for contract in (Contract.NONE, Contract.STRIDE, Contract.STATIC):
        unit = translation_unit(kernel, kernel.problem({}, contract, TARGET), "THE_LOOPS;")
        before, _, _ = unit.partition("THE_LOOPS;")
        inside = before[before.index("int kernel(") :]
        assert ("input = __builtin_assume_aligned(input, 128);" in inside) is (
            contract is not Contract.NONE
        )
