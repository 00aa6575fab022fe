"""Near misses: each is one edit of a right package that makes it wrong somewhere.

They are the mistakes people make: a row or a vector short, a sum rounded or saturated otherwise,
the last tile elsewhere, a dense stride where callers choose one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "packages"


@dataclass(frozen=True)
class Mutated:
    """A package, the config and the contract it is tried with, and its mutants: edits of
    ``source``, by what they do."""

    folder: Path
    source: str
    contract: str
    config: Mapping[str, int | str]
    edits: Mapping[str, tuple[str, str]]


_BLUR = Mutated(
    ROOT / "tuner" / "packages" / "skeletons" / "c",
    "blur.c",
    "stride",
    {"ROWS": 4, "UNROLL": 1},
    {
        "last walk one up": ("height - ROWS;", "height - ROWS - 1;"),
        "not rounded": ("VhVhR_rnd_sat", "VhVhR_sat"),
        "a weight of one lane": ("0x02020202", "0x02020201"),
        "last walk reads on": ("src + top", "src + y"),
    },
)
_GEMM = Mutated(
    EXAMPLES / "gemm",
    "gemm.c",
    "stride",
    {"ROWS": 4, "VECTORS": 2, "UNROLL": 2, "AHEAD": 0},
    {
        "a quad short": ("quad < quads;", "quad < quads - 1;"),
        "last tile one up": ("m - ROWS;", "m - ROWS - 1;"),
        "another stride": ("row * a_stride", "row * b_stride"),
        "past the end": ("c_stride + left", "c_stride + x"),
    },
)
_MOTION = Mutated(
    EXAMPLES / "motion_asm",
    "motion.s",
    "extent",
    {"VECTORS": 2, "PACKETS": "overlapped", "AHEAD": 0},
    {
        "not saturated": (
            "v3.ub = vsub(v2.ub, v31.ub):sat\n{%- if",
            "v3.b = vsub(v2.b, v31.b)\n{%- if",
        ),
        "one sign": (
            "v2.ub = vabsdiff(v{{ at % 2 * 4 }}.ub, v{{ at % 2 * 4 + 1 }}.ub)",
            "v2.ub = vsub(v{{ at % 2 * 4 }}.ub, v{{ at % 2 * 4 + 1 }}.ub):sat",
        ),
        "a row short": ("cmp.gt(r8, #0)", "cmp.gt(r8, #1)"),
        "threshold in one lane of four": ("r6 = vsplatb(r6)", "r6 = r6"),
        "half a row": ("2: 8,", "2: 9,"),
    },
)
_SMOOTH = Mutated(
    Path(__file__).with_name("smooth_f32"),
    "smooth.c",
    "none",
    {"UNROLL": 2},
    {
        "a weight a little off": ("2 * at[x + 1]", "1.9999f * at[x + 1]"),
        "a column short": ("x < width;", "x < width - 1;"),
        "a row short": ("y < height;", "y < height - 1;"),
        "dense rows of dst": ("y * dst_stride", "y * width"),
    },
)
PACKAGES = {one.folder.name: one for one in (_BLUR, _GEMM, _MOTION, _SMOOTH)}
