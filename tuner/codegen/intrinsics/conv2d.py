"""Convolutions of bytes with pixels in the lanes: 1x1, and any window over one quad of channels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tuner.codegen.intrinsics.form import Form
from tuner.kernels import Kernel, find_kernel, tiling
from tuner.kernels.conv2d_u8 import QUAD
from tuner.problem.contract import Contract
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue

_AHEAD = 4
"""Quads from the fetch of their weights to their use: 8 packets each."""
_BITS = 3
"""Steps of a deal in registers: on eight vectors."""
_MOST_ODD = 15

_KNOBS = (
    Knob("reg_rows", (4, 8, 16), "output channels in registers"),
    Knob("reg_vectors", (1, 2, 4), "vectors of pixels in registers"),
    Knob("reg_unroll", (1, 2, 3, 4), "quads in one iteration"),
    Knob("reg_fetch", ("on", "off"), "weights fetched into L1 (dcfetch) ahead"),
)
_CONSTRAINTS = (
    Constraint("reg_rows * reg_vectors <= 16", "sums of more vectors leave none for operands"),
    Constraint(
        "reg_quads % reg_unroll == 0", "a jump out of the middle of a loop breaks its packets"
    ),
    Constraint("reg_outputs % reg_rows == 0", "every tile has the same number of channels"),
    Constraint(
        "reg_vectors * reg_words <= reg_pixels", "a tile has no more pixels than the output"
    ),
)


class Conv2d(Form):
    """``conv2d_u8`` with static shapes."""

    kernels = ("conv2d_u8",)
    name = "conv2d"
    knobs = _KNOBS
    constraints = _CONSTRAINTS
    clang_knobs = ("llvm_optimize", "llvm_pipeliner")
    headers = ("requantize.h",)

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        params = problem.workload.params
        if problem.contract is not Contract.STATIC:
            return "its shape is open (contract static makes it known)"
        if params["size"] > 1 and (params["channels_in"] != QUAD or params["stride"] > 2):
            return f"windows of several pixels need channels_in={QUAD} and a stride of at most 2"
        if params["size"] == 1 and params["stride"] > 1:
            return "it skips pixels between windows of one"
        if params["channels_out"] % QUAD:
            return f"channels_out={params['channels_out']} is not a multiple of {QUAD}"
        words = problem.target.lanes(4)
        if _pixels(kernel, problem) < words:
            return f"it has fewer than {words} pixels to fill a vector with"
        quads = params["channels_in"] // QUAD, params["channels_out"] // QUAD
        if any(_odd(count) > _MOST_ODD for count in quads):
            return "its channels have too large an odd factor"
        return ""

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        kernel = find_kernel(problem.workload.kernel)
        params = problem.workload.params
        return {
            "reg_quads": params["channels_in"] // QUAD * params["size"] ** 2,
            "reg_outputs": params["channels_out"],
            "reg_words": problem.target.lanes(4),
            "reg_pixels": _pixels(kernel, problem),
        }

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        """Few channels of many pixels, which spares scalars; one vector where pixels are few."""
        constants = self.constants(problem)
        pixels, words = int(constants["reg_pixels"]), int(constants["reg_words"])
        outputs, quads = int(constants["reg_outputs"]), int(constants["reg_quads"])
        # As few vectors computed twice as can be, then as wide as can be.
        fitting = [n for n in (4, 2, 1) if n * words <= pixels]
        vectors = min(fitting, key=lambda n: -(-pixels // (n * words)) * n)
        weights = QUAD * quads * outputs
        rows = max(n for n in (4, 8, 16) if outputs % n == 0 and n * vectors <= 16)
        return {
            "reg_rows": rows,
            "reg_vectors": vectors,
            "reg_unroll": max(n for n in (1, 2, 3, 4) if quads % n == 0),
            "reg_fetch": "off" if weights <= problem.target.l1d_bytes // 2 else "on",
            "llvm_optimize": "O3",
        }

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        params = problem.workload.params
        inputs, outputs = params["channels_in"] // QUAD, params["channels_out"]
        streams = tiling.streams(problem, kernel.buffers(params))
        return {
            "SIZE": params["size"],
            "QUADS": inputs * params["size"] ** 2,
            "OUTPUTS": outputs,
            "MOST_WORDS": max(inputs, outputs // QUAD),
            "ROWS": config.integer("reg_rows"),
            "VECTORS": config.integer("reg_vectors"),
            "UNROLL": config.integer("reg_unroll"),
            "FETCH": _AHEAD if config.is_on("reg_fetch") else 0,
            "STREAMS": int(streams),
        }

    def functions(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        params, words = problem.workload.params, problem.target.lanes(4)
        inputs, outputs = params["channels_in"] // QUAD, params["channels_out"] // QUAD
        lines = [] if params["size"] > 1 else _to_lanes(inputs, words)
        return "\n".join([*lines, *_from_lanes(outputs, words)])


def _pixels(kernel: Kernel, problem: Problem) -> int:
    """Of the output, or of a row of it: what tiles walk along."""
    params = problem.workload.params
    height, width, _ = kernel.buffers(params)[-1].shape
    return int(width if params["size"] > 1 else height * width)


def _odd(count: int) -> int:
    """The odd factor of ``count``."""
    return count // (count & -count)


def _levels(count: int) -> list[tuple[int, int, int]]:
    """Lists, columns and bits of the deals that take ``count`` columns apart to an odd number."""
    levels, lists = [], 1
    while count % 2 == 0:
        bits = min(_BITS, (count & -count).bit_length() - 1)
        levels.append((lists, count, bits))
        lists, count = lists << bits, count >> bits
    return levels


def _to_lanes(count: int, words: int) -> list[str]:
    """C of ``to_lanes``: pixels of ``count`` words to as many vectors of one word of each pixel."""
    odd, levels = _odd(count), _levels(count)
    lines = _tables("in", odd, words, inverse=True)
    lines.append("INLINE void to_lanes(const V *from, V *to, V *spare) {")
    at = "from"
    for number, (lists, columns, bits) in enumerate(levels):
        is_last = odd == 1 and number == len(levels) - 1
        target = "to" if is_last else f"(spare + {number % 2 * count})"
        stride = "VECTORS" if is_last else "1"
        lines.append(f"deal({at}, {target}, {lists}, {columns}, {bits}, {stride});")
        at = target
    if not levels:  # not on vectors' boundaries
        lines.append(f"for (int i = 0; i < {count}; ++i) spare[i] = (V)((const VU *)from)[i];")
        at = "spare"
    if odd > 1:
        lines.append(f"part_odd({at}, to, {count // odd}, {odd}, VECTORS, in_masks, in_controls);")
    elif not levels:
        lines.append("*to = *spare;")
    return [*lines, "}"]


def _from_lanes(count: int, words: int) -> list[str]:
    """C of ``from_lanes``, the inverse, to memory off vectors' boundaries."""
    odd, levels = _odd(count), _levels(count)
    lines = _tables("out", odd, words, inverse=False)
    lines.append("INLINE void from_lanes(const V *from, V *to, V *spare) {")
    at, turn = "from", 0
    if odd > 1:
        lines.append(f"join_odd(from, spare, {count // odd}, {odd}, out_masks, out_controls);")
        at, turn = "spare", 1
    for number, (lists, columns, bits) in enumerate(reversed(levels)):
        target = "to" if number == len(levels) - 1 else f"(spare + {turn * count})"
        lines.append(f"shuffle({at}, {target}, {lists}, {columns}, {bits});")
        at, turn = target, 1 - turn
    if not levels:
        lines.append(f"for (int i = 0; i < {count}; ++i) ((VU *)to)[i] = (VU){at}[i];")
    return [*lines, "}"]


def _tables(name: str, odd: int, words: int, *, inverse: bool) -> list[str]:
    """Masks of the lanes with each remainder, and controls of ``vrdelta`` for each word c: from
    lane p to lane odd p + c modulo the lanes, or back."""
    if odd == 1:
        return []
    masks = [[255 * (lane % odd == rest) for lane in range(words)] for rest in range(odd)]
    back = pow(odd, -1, words)
    controls = []
    for c in range(odd):
        forth = [(odd * p + c) % words for p in range(words)]
        to = [(lane - c) * back % words for lane in range(words)] if inverse else forth
        controls.append(_delta(to))
    return [_table(f"{name}_masks", masks, QUAD), _table(f"{name}_controls", controls, QUAD)]


def _delta(to: Sequence[int]) -> list[int]:
    """The control, for each lane, of a reverse delta network that sends lane i to ``to[i]``: stage
    by stage from the lowest bit on (HVX manual, ``vrdelta``). Low bits of ``to`` must follow from
    low bits of i alone, as those of odd multiples do."""
    control = [0] * len(to)
    bit = 1
    while bit < len(to):
        for lane, goal in enumerate(to):
            before = lane & ~(bit - 1) | goal & (bit - 1)
            after = lane & ~(2 * bit - 1) | goal & (2 * bit - 1)
            if before != after:
                control[after] |= QUAD * bit
        bit *= 2
    return control


def _table(name: str, rows: Sequence[Sequence[int]], repeat: int) -> str:
    """A table of vectors whose lanes of words have the same byte four times."""
    vectors = ", ".join(
        "{" + ", ".join(str(0x01010101 * value - (value > 127) * (1 << 32)) for value in row) + "}"
        for row in rows
    )
    return f"static const V {name}[] = {{{vectors}}};"
