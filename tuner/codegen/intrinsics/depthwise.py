"""3x3 depthwise convolutions of bytes: channels in the lanes, quads of four rows."""

from __future__ import annotations

from collections.abc import Mapping
from math import lcm

from tuner.codegen.intrinsics.form import Form
from tuner.kernels import Kernel, tiling
from tuner.problem.contract import Contract
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue

_BY_COLUMNS, _BY_PIXELS = "reg_walk == 'columns'", "reg_walk == 'pixels'"
_KNOBS = (
    Knob("reg_walk", ("pixels", "columns"), "along rows, or along one row's columns of a vector"),
    Knob("reg_order", ("units_first", "taps_first"), "order of a vector's products"),
    Knob("reg_sums", ("apart", "fused"), "products added by other units, or by the multipliers"),
    Knob("reg_rows", (1, 2), "output rows together", when=f"{_BY_COLUMNS} and reg_stride == 2"),
    Knob("reg_unroll", (1, 2, 3, 4), "columns in one iteration", when=_BY_COLUMNS),
    Knob("reg_pixels", (1, 2, 4, 8), "output pixels in one iteration", when=_BY_PIXELS),
    Knob("reg_apart", ("off", "on"), "LLVM ends a vector before the next", when=_BY_PIXELS),
    Knob("reg_copies", (1, 2), "vectors interleaved in one iteration", when=_BY_PIXELS),
)
_MOST_UNITS = 36
"""Vectors of sums in one iteration of several pixels: more make its code long."""
_CONSTRAINTS = (
    Constraint(f"{_BY_PIXELS} or reg_channels >= reg_lanes", "fewer channels do not fill a vector"),
    Constraint("reg_width % reg_pixels == 0", "every iteration has the same number of pixels"),
    Constraint(
        "reg_pixels == 1 or reg_pixels * reg_channels % reg_words == 0"
        " and (reg_stride == 1 or reg_channels % reg_words == 0)",
        "vectors of sums do not end with the pixels, or span some that are not neighbours",
    ),
    Constraint(
        f"reg_pixels == 1 or reg_pixels * reg_channels <= {_MOST_UNITS} * reg_words",
        "longer loop bodies take seconds to compile and are hardly faster",
    ),
)
_MOST_SPAN = 8
"""Pixels that share a vector: the rest of more is not worth collecting."""
_NARROW = 8


class DepthwiseConv2d(Form):
    """``depthwise_conv2d_u8`` with static shapes."""

    kernels = ("depthwise_conv2d_u8",)
    name = "depthwise"
    knobs = _KNOBS
    constraints = _CONSTRAINTS
    headers = ("requantize.h", "depthwise_products.h")

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        if problem.contract is not Contract.STATIC:
            return "its shape is open (contract static makes it known)"
        return ""

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        params = problem.workload.params
        return {
            "reg_channels": params["channels"],
            "reg_stride": params["stride"],
            "reg_lanes": problem.target.lanes(1),
            "reg_words": problem.target.lanes(4),
            "reg_width": -(-params["width"] // params["stride"]),
        }

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        """Columns where there are vectors of channels; else the fewest pixels that fill some."""
        params, lanes = problem.workload.params, problem.target.lanes(1)
        channels, stride = params["channels"], params["stride"]
        width = -(-params["width"] // stride)
        if channels >= lanes:
            narrow = width <= _NARROW
            return {
                "reg_walk": "columns",
                "reg_order": "taps_first" if narrow else "units_first",
                "reg_unroll": 1 if stride > 1 else 2 if narrow else 4,
            }
        words = problem.target.lanes(4)
        fitting = [
            n
            for n in (1, 2, 4, 8)
            if width % n == 0
            and n * channels % lanes == 0
            and n * channels <= _MOST_UNITS * words
            and (stride == 1 or channels % words == 0)
        ]
        return {"reg_pixels": min(fitting, default=1), "reg_copies": 2}

    def files(self, config: Config) -> str:
        return f"{self.name}_{config.text('reg_walk')}"

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        params = problem.workload.params
        buffers = kernel.buffers(params)
        macros = {
            "CHANNELS": params["channels"],
            "STRIDE": params["stride"],
            "UNITS_FIRST": int(config.text("reg_order") == "units_first"),
            "SUMS_APART": int(config.text("reg_sums") == "apart"),
            "STREAMS": int(tiling.streams(problem, buffers)),
        }
        of_walk = _of_columns if config.text("reg_walk") == "columns" else _of_pixels
        return {**macros, **of_walk(kernel, problem, config)}


def _of_pixels(kernel: Kernel, problem: Problem, config: Config) -> dict[str, int]:
    channels, pixels = problem.workload.params["channels"], config.integer("reg_pixels")
    return {
        "PERIOD": lcm(channels, problem.target.lanes(4)) // problem.target.lanes(4),
        "PIXELS": pixels,
        "IS_WHOLE": int(pixels * channels % problem.target.lanes(1) == 0),
        "IS_APART": int(config.is_on("reg_apart")),
        "COPIES": config.integer("reg_copies"),
    }


def _of_columns(kernel: Kernel, problem: Problem, config: Config) -> dict[str, int]:
    params, lanes = problem.workload.params, problem.target.lanes(1)
    source, _, output = kernel.buffers(params)
    rows = [spec.shape[1] * spec.shape[2] for spec in (source, output)]
    span = _span(params["width"], params["channels"], params["stride"], lanes)
    return {
        "ROWS": 2 if params["stride"] == 1 else config.integer("reg_rows"),
        "UNROLL": config.integer("reg_unroll"),
        "SPAN": span,
        "OVERLAP": output.shape[1] % span,
        "IS_ALIGNED": int(all(row % lanes == 0 for row in rows)),
    }


def _span(width: int, channels: int, stride: int, lanes: int) -> int:
    """How many pixels share a vector for the channels that fill none; 1 if they do not fit."""
    rest, pixels = channels % lanes, -(-width // stride)
    if rest == 0 or lanes % rest or lanes // rest > _MOST_SPAN or width % stride:
        return 1
    span = lanes // rest
    # With stride 1 the last of them lie at the edge, with stride 2 they may be computed twice.
    fits = pixels % span == 0 or (stride > 1 and pixels >= 2 * span)
    return span if fits else 1
