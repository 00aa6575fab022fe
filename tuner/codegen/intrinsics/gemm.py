"""Products of matrices of bytes, of any shape."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.codegen.intrinsics.form import Form, is_aligned
from tuner.kernels import Kernel, find_kernel, tiling
from tuner.problem.contract import Contract
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue

_ENDS = {"free": 0, "fenced": 1, "held": 2}
_FETCHES = {"ahead": 1, "whole": 2, "off": 0}
_MOST_SUMS = 24
"""Vectors of sums: the others of 32 registers hold what they are made of."""
_USUAL_SUMS = 16
_PACKED = ("gemm_u8_packed", "gemm_i8_packed")
"""Kernels that take B as quads of rows."""

_KNOBS = (
    Knob("reg_rows", (1, 2, 3, 4, 5, 6, 8, 11, 12, 16), "rows of C in registers"),
    Knob("reg_vectors", (1, 2, 3, 4), "vectors of a row of C in registers"),
    Knob("reg_pairs", (1, 2, 4), "steps of 8 along k in one iteration"),
    Knob("reg_walk", ("rows", "panels"), "outer loop over tiles: all of B packed, or a panel"),
    Knob("reg_fetch", tuple(_FETCHES), "A fetched into L1 (dcfetch): a tile ahead, all first, not"),
    Knob("reg_end", tuple(_ENDS), "where LLVM may move the first loads of the next tile"),
)
_CONSTRAINTS = (
    Constraint(
        f"reg_rows * reg_vectors <= {_MOST_SUMS}",
        "sums of more vectors do not leave registers for operands",
    ),
    Constraint(
        "reg_fetch != 'whole' or reg_static == 1 and 2 * reg_m * reg_k <= reg_l1_bytes",
        "L1 does not hold all of A",
    ),
    Constraint("reg_static == 0 or reg_rows <= reg_m", "a tile has no more rows than C"),
    Constraint(
        "reg_static == 0 or reg_vectors <= reg_most_vectors", "a tile has no more columns than C"
    ),
)


class Gemm(Form):
    """``gemm_u8``, ``gemm_i8`` and those whose B comes packed."""

    kernels = ("gemm_u8", "gemm_i8", *_PACKED)
    name = "gemm"
    knobs = _KNOBS
    constraints = _CONSTRAINTS

    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        params = problem.workload.params
        return {
            "reg_static": int(problem.contract is Contract.STATIC),
            "reg_m": params["m"],
            "reg_k": params["k"],
            "reg_l1_bytes": problem.target.l1d_bytes,
            "reg_most_vectors": -(-params["n"] // problem.target.lanes(4)),
        }

    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        """Sixteen vectors of sums, four of a row if there are; one panel of B at a time where L2
        does not hold everything, or B came packed. One tile of rows has nothing to fetch ahead."""
        rows, vectors = (
            int(self.constants(problem)["reg_m"]),
            int(self.constants(problem)["reg_most_vectors"]),
        )
        kernel = find_kernel(problem.workload.kernel)
        streams = tiling.streams(problem, kernel.buffers(problem.workload.params))
        wide = 3 if vectors % 4 and vectors % 3 == 0 else min(4, vectors)
        is_odd = bool(problem.workload.params["k"] % 32)
        tall = max(n for n in (1, 2, 3, 4, 5, 8, 12) if n <= min(rows, _USUAL_SUMS // wide))
        is_packed = problem.workload.kernel in _PACKED
        walk = "panels" if streams or (is_packed and tall < rows) else "rows"
        fetch = "off" if is_packed and tall == rows else "whole" if is_odd else "ahead"
        return {
            "reg_rows": tall,
            "reg_vectors": wide,
            "reg_pairs": 1 if is_odd else 4,
            "reg_fetch": fetch,
            "reg_walk": walk,
            "reg_end": "fenced",
        }

    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        a, b, c = kernel.buffers(problem.workload.params)
        vectors = config.integer("reg_vectors")
        rest = int(self.constants(problem)["reg_most_vectors"]) % vectors
        # Where the shape is open, the columns behind whole panels have panels of one vector.
        last = rest or vectors if problem.contract is Contract.STATIC else 1
        return {
            "SIGNED": int(a.dtype == "int8"),
            "ROWS": config.integer("reg_rows"),
            "COLUMNS": vectors,
            "LAST_COLUMNS": last,
            "PACKED": int(kernel.name in _PACKED),
            "PAIRS": config.integer("reg_pairs"),
            "WALKS_ROWS": int(config.text("reg_walk") == "rows"),
            "PREFETCH": _FETCHES[config.text("reg_fetch")],
            "LOADS_STAY": _ENDS[config.text("reg_end")],
            "B_ALIGNED": int(is_aligned(b, problem)),
            "C_ALIGNED": int(is_aligned(c, problem)),
        }
