"""What a function that is called like Halide's tells clang."""

from __future__ import annotations

from tuner.codegen.wrapping import wrapped
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")


def test_the_loops_know_what_the_contract_says_of_alignment():
    """Where they are: clang forgets what only the caller of their function knows."""
    kernel = find_kernel("lut_u8")
    for contract in (Contract.NONE, Contract.STRIDE, Contract.STATIC):
        problem = kernel.problem({}, contract, TARGET)
        unit = wrapped(problem, kernel.buffers(problem.workload.params), {}, "THE_LOOPS;")
        before, _, _ = unit.partition("THE_LOOPS;")
        inside = before[before.index("int kernel(") :]
        assert ("input = __builtin_assume_aligned(input, 128);" in inside) is (
            contract is not Contract.NONE
        )
