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
        "a row short": ("y < height;", "y < height - ROWS;"),
        "last walk one up": ("height - ROWS;", "height - ROWS - 1;"),
        "not rounded": ("VhVhR_rnd_sat", "VhVhR_sat"),
        "shifted by one more": ("lo_W(sum), 2)", "lo_W(sum), 3)"),
        "a weight of one lane": ("0x02020202", "0x02020201"),
        "a weight of the other lane": ("0x02020202", "0x03020202"),
        "a row above": ("(row + 2)", "(row + 1)"),
        "lanes swapped": ("Q6_V_hi_W(sum), Q6_V_lo_W(sum)", "Q6_V_lo_W(sum), Q6_V_hi_W(sum)"),
        "rows moved twice": ("above = at;", "above = below;"),
        "a vector short": ("x < width;", "x + VECTOR < width;"),
        "last walk reads on": ("src + top", "src + y"),
        "last walk writes on": ("dst + top", "dst + y"),
        "a row for another": ("VubVub(above, below)", "VubVub(above, at)"),
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
        "last tile further left": ("n - COLUMNS;", "n - COLUMNS - WORDS;"),
        "signed bytes": ("Q6_Vuw_vrmpyacc_VuwVubRub", "Q6_Vw_vrmpyacc_VwVubRb"),
        "a quad late": ("+ 4 * quad)", "+ 4 * quad + 4)"),
        "another stride": ("row * a_stride", "row * b_stride"),
        "sums from one": ("Q6_V_vzero()", "Q6_V_vsplat_R(1)"),
        "columns of B": ("b + 4 * left", "b + 4 * x"),
        "past the end": ("c_stride + left", "c_stride + x"),
        "a tile short": ("y < m;", "y + ROWS < m;"),
        "seven bits": ("= *(const uint32_t *)", "= 0x7f7f7f7f & *(const uint32_t *)"),
    },
)
_STENCIL = Mutated(
    EXAMPLES / "stencil3x3",
    "binomial3x3.c",
    "none",
    {"FORM": "SEPARATE", "LANES": 128, "INTERLEAVE": 1, "UNROLL": 1},
    {
        "rounded down a little": ("columns[x + 2] + 8", "columns[x + 2] + 7"),
        "not rounded": ("columns[x + 2] + 8", "columns[x + 2]"),
        "a column short": ("x < width + 2;", "x < width + 1;"),
        "a row short": ("y < height;", "y < height - 1;"),
        "a weight": ("2 * at[x] + below[x]);\n        V", "at[x] + below[x]);\n        V"),
        "sums of eight bits": ("uint16_t columns", "uint8_t columns"),
        "a row twice": ("*below = at + src_stride", "*below = at"),
        "a column twice": ("columns[x + 2] + 8", "columns[x + 1] + 8"),
        "dense rows of dst": ("dst + y * dst_stride", "dst + y * width"),
        "dense rows of src": ("src + y * src_stride", "src + y * (width + 2)"),
        "halves down": ("columns[x + 1] + columns", "columns[x + 1] - 1 + columns"),
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
        "columns for rows": ("r8 = memw(r29+#8)", "r8 = memw(r29+#4)"),
        "a row short": ("cmp.gt(r8, #0)", "cmp.gt(r8, #1)"),
        "stride of moved": ("r4 = add(r4, r5)", "r4 = add(r4, r1)"),
        "stride of after": ("r2 = add(r2, r3)", "r2 = add(r2, r1)"),
        "stride of before": ("r0 = add(r0, r1)", "r0 = add(r0, r5)"),
        "threshold in one lane of four": ("r6 = vsplatb(r6)", "r6 = r6"),
        "half a row": ("2: 8,", "2: 9,"),
        "a frame twice": ("r11 = r2", "r11 = r0"),
        "no threshold": ("v3.new", "v2"),
        "threshold added": (
            "v3.ub = vsub(v2.ub, v31.ub):sat\n{%- if",
            "v3.ub = vadd(v2.ub, v31.ub):sat\n{%- if",
        ),
    },
)
_VMULC = Mutated(
    EXAMPLES / "vmulc_s8",
    "vmulc_s8.c",
    "none",
    {"VECTORS": 2, "UNROLL": 1, "WHOLE": 1},
    {
        "half forgotten": (".half = Q6_V_vsplat_R(p->shift ? 1", ".half = Q6_V_vsplat_R(0 ? 1"),
        "product rounded down": ("_s1_rnd_sat_shift", "_s1_sat_shift"),
        "last vector one up": ("batch - BYTES;", "batch - BYTES - 1;"),
        "past the end": ("i + BYTES <= batch ? i", "1 ? i"),
        "not saturated": ("Q6_Vb_vasr_VhVhR_sat(odd, even, 0)", "Q6_Vb_vshuffe_VbVb(odd, even)"),
        "no least": ("Q6_Vb_vmax_VbVb(y, c->least)", "y"),
        "no greatest": ("c->least), c->greatest)", "c->least), Q6_Vb_vsplat_R(127))"),
        "zero point of y": ("Q6_Vh_vsplat_R(p->y_zero)", "Q6_Vh_vsplat_R(p->y_zero + 1)"),
        "zero point of b": ("factor = *b - p->b_zero", "factor = *b"),
        "lanes swapped": ("Q6_Vh_vsat_VwVw(odd, even)", "Q6_Vh_vsat_VwVw(even, odd)"),
        "aligned where nothing is": ("*(HVX_UVector *)(y + from)", "*(HVX_Vector *)(y + from)"),
        "few elements not rounded": ("(y + half) >> p->shift", "y >> p->shift"),
    },
)
_SOBEL = Mutated(
    EXAMPLES / "sobel_command",
    "sobel.c",
    "none",
    {"LEVEL": 2, "INTERLEAVE": 1, "LANES": 64, "PIPELINER": 1},
    {
        "not saturated": ("sum > 255 ? 255 : sum", "sum"),
        "saturated early": ("sum > 255 ? 255", "sum > 254 ? 254"),
        "a weight": ("2 * at[x] +", "at[x] +"),
        "a column": ("above[x + 2] + 2 * at[x + 2]", "above[x + 1] + 2 * at[x + 2]"),
        "a column short": ("x < width;", "x < width - 1;"),
        "a row short": ("y < height;", "y < height - 1;"),
        "dense rows of dst": ("dst + y * dst_stride", "dst + y * width"),
        "one sign": ("left < right ? right - left : left - right", "right - left"),
        "maximum for sum": ("(dx + dy)", "(dx > dy ? dx : dy)"),
        "a row twice": ("*below = at + src_stride", "*below = at"),
        "eight bits": ("int16_t sum = (int16_t)", "uint8_t sum = (uint8_t)"),
    },
)
_SMOOTH = Mutated(
    Path(__file__).with_name("smooth_f32"),
    "smooth.c",
    "none",
    {"UNROLL": 2},
    {
        "a weight a little off": ("2 * at[x + 1]", "1.9999f * at[x + 1]"),
        "a bias a little off": ("0.5f", "0.501f"),
        "no bias": (" + 0.5f", ""),
        "a column twice": ("at[x + 2]", "at[x + 1]"),
        "a column short": ("x < width;", "x < width - 1;"),
        "a row short": ("y < height;", "y < height - 1;"),
        "one gain for all": ("gain[x] *", "gain[0] *"),
        "dense rows of src": ("y * src_stride", "y * (width + 2)"),
        "dense rows of dst": ("y * dst_stride", "y * width"),
        "whole numbers": ("float sum", "int sum"),
        "twelve bits": ("+ 0.5f;", "* 1.0003f + 0.5f;"),
    },
)
PACKAGES = {
    one.folder.name: one for one in (_BLUR, _GEMM, _STENCIL, _MOTION, _VMULC, _SOBEL, _SMOOTH)
}
