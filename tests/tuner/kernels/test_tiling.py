"""Tails: where tiles divide an extent by contract, and what is allowed where they do not."""

import pytest

from tuner.kernels import find_kernel
from tuner.kernels.tiling import known_multiple
from tuner.problem.contract import Contract
from tuner.problem.target import find_target

TARGET = find_target("hexagon-v66")


def space_of(kernel: str, contract: Contract, **params: int):
    made = find_kernel(kernel)
    return made.space(made.problem(params, contract, TARGET))


@pytest.mark.parametrize(
    ("contract", "multiple"),
    [(Contract.NONE, 1), (Contract.EXTENT, TARGET.vector_bytes), (Contract.STATIC, 640)],
)
def test_the_contract_says_what_the_innermost_extent_is_divisible_by(contract, multiple) -> None:
    kernel = find_kernel("sobel_u8")
    problem = kernel.problem({"width": 640}, contract, TARGET)
    image = kernel.buffers(problem.workload.params)[0]
    assert known_multiple(problem, 640, image) == multiple


def test_where_tiles_divide_the_extent_there_is_no_tail_to_choose() -> None:
    for config in list(space_of("add_u8", Contract.STATIC, width=1024, height=64)):
        step = config.integer("vector_lanes") * config.integer("unroll_x")
        assert ("tail_x" in config) == (1024 % step != 0)


def test_no_tile_is_moved_inwards_where_none_fits() -> None:
    for config in space_of("add_u8", Contract.NONE, width=TARGET.vector_bytes - 1, height=2):
        assert config["tail_x"] == "guard_with_if"
