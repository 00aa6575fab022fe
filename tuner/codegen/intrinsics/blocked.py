"""Layers between images in channel blocks: pixels in the lanes, weights as scalars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tuner.codegen.intrinsics.form import Form
from tuner.kernels import Kernel, find_kernel
from tuner.kernels.blocked import (
    BlockedConv,
    BlockedDepthwiseConv,
    BlockedExpandedConv,
    BlockedKernel,
)
from tuner.kernels.conv2d_u8 import QUAD
from tuner.problem.contract import Contract
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue

_AHEAD = 8
"""Rows from the fetch of an image's first layer to their use."""
_FETCH, _FEW_VECTORS = 4, 32
"""Quads from the fetch of weights to their use, and vectors of pixels below which that pays: the
weights of a tile are read once for each tile of pixels, and stay in L1 then."""

_COLUMNS = Knob("reg_columns", (1, 2, 3, 4), "vectors of pixels of a window in one iteration")


class _Blocked(Form):
    clang_knobs: ClassVar[tuple[str, ...]] = ("llvm_optimize", "llvm_pipeliner")
    headers: ClassVar[tuple[str, ...]] = ("blocked.h",)

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        if problem.contract is not Contract.STATIC:
            return "its shape is open (contract static makes it known)"
        return ""

    def images(self, kernel: Kernel, problem: Problem) -> dict[str, int]:
        """Where the pixels of both images are."""
        assert isinstance(kernel, BlockedKernel)  # noqa: S101 - of kernels in `kernels`
        macros: dict[str, int] = {}
        for side, blocks in zip(("IN", "OUT"), kernel.images(problem.workload.params), strict=True):
            macros |= {
                f"{side}_HEIGHT": blocks.height,
                f"{side}_WIDTH": blocks.width,
                f"{side}_PITCH": blocks.pitch,
                f"{side}_FIRST": blocks.first,
                f"{side}_PIXELS": blocks.pixels,
            }
        return macros


class BlockedConv2d(_Blocked):
    """``blocked:qconv2d_u8``."""

    kernels = (BlockedConv.name,)
    name = "blocked_conv"
    knobs: ClassVar[tuple[Knob, ...]] = (
        Knob("reg_rows", (4, 8, 16), "output channels in registers"),
        Knob("reg_vectors", (1, 2, 3, 4), "vectors of pixels in registers"),
        Knob("reg_unroll", (1, 2, 3, 4), "quads in one iteration"),
        Knob("reg_ahead", (0, 4, 8), "quads from the fetch of weights into L1 to their use"),
    )
    constraints = (
        Constraint("reg_rows * reg_vectors <= 20", "sums of more leave no registers for operands"),
        Constraint("reg_quads % reg_unroll == 0", "a jump out of a loop's middle breaks packets"),
        Constraint("reg_outputs % reg_rows == 0", "every tile has the same number of channels"),
        Constraint("reg_vectors <= reg_span", "a tile has no more pixels than the image"),
    )

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        params = problem.workload.params
        if params["size"] == 1 and params["stride"] > 1:
            return "it skips pixels between windows of one"
        if params["size"] == 2 or (params["size"] > 1 and params["channels_in"] != QUAD):
            return f"windows of several pixels need size=3 and channels_in={QUAD}"
        return super().why_not(kernel, problem)

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        params, words = problem.workload.params, problem.target.lanes(4)
        kernel = find_kernel(problem.workload.kernel)
        images = self.images(kernel, problem)
        walked = images["OUT_WIDTH"]
        if params["size"] == 1:
            walked = images["OUT_PITCH"] * images["OUT_HEIGHT"]
        return {
            "reg_quads": params["channels_in"] // QUAD * params["size"] ** 2,
            "reg_outputs": params["channels_out"],
            "reg_span": -(-walked // words),
        }

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        """Two vectors of eight channels, or as many vectors as there are pixels for."""
        constants = self.constants(problem)
        outputs, span = int(constants["reg_outputs"]), int(constants["reg_span"])
        quads = int(constants["reg_quads"])
        vectors = min(2, span)
        rows = max(n for n in (4, 8, 16) if outputs % n == 0 and n * vectors <= 16)
        return {
            "reg_rows": rows,
            "reg_vectors": vectors,
            "reg_unroll": max(n for n in (1, 2, 3, 4) if quads % n == 0),
            "reg_ahead": _FETCH if span <= _FEW_VECTORS else 0,
            "llvm_optimize": "O3",
        }

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        params = problem.workload.params
        return {
            **self.images(kernel, problem),
            "SIZE": params["size"],
            "QUADS": params["channels_in"] // QUAD * params["size"] ** 2,
            "OUTPUTS": params["channels_out"],
            "ROWS": config.integer("reg_rows"),
            "VECTORS": config.integer("reg_vectors"),
            "UNROLL": config.integer("reg_unroll"),
            "FETCH": config.integer("reg_ahead"),
            "AHEAD": _AHEAD,
        }


class BlockedExpandedConv2d(BlockedConv2d):
    """``blocked:qexpanded_conv2d_u8``."""

    kernels = (BlockedExpandedConv.name,)
    name = "blocked_expanded"
    headers = ("blocked.h", "blocked_conv.h", "blocked_depthwise.h")
    knobs = (*BlockedConv2d.knobs, _COLUMNS)

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        return _Blocked.why_not(self, kernel, problem)

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        return super().constants(_expansion(problem))

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        return {**super().textbook(problem), "reg_columns": 2}

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        expansion = _expansion(problem)
        return {
            **super().macros(find_kernel(BlockedConv.name), expansion, config),
            **self.images(kernel, problem),
            "STRIDE": problem.workload.params["stride"],
            "COLUMNS": config.integer("reg_columns"),
        }


def _expansion(problem: Problem) -> Problem:
    """The convolution of 1x1 pixels that comes first."""
    kernel = find_kernel(BlockedConv.name)
    params = BlockedExpandedConv.expansion(problem.workload.params)
    return kernel.problem(params, problem.contract, problem.target)


class BlockedDepthwiseConv2d(_Blocked):
    """``blocked:qdepthwise_conv2d_u8``."""

    kernels = (BlockedDepthwiseConv.name,)
    name = "blocked_depthwise"
    knobs = (_COLUMNS,)
    constraints = ()

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        return {}

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        return {"reg_columns": 2, "llvm_optimize": "O3"}

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        params = problem.workload.params
        return {
            **self.images(kernel, problem),
            "STRIDE": params["stride"],
            "BLOCKS": params["channels"] // QUAD,
            "COLUMNS": config.integer("reg_columns"),
        }
