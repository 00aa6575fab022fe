"""Writes the C of a config: knobs, parameters and ``arch`` come by name."""

HEAD = """
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#include <stdint.h>

static inline HVX_Vector blurred(HVX_Vector above, HVX_Vector at, HVX_Vector below) {
    HVX_VectorPair sum = Q6_Wh_vadd_VubVub(above, below);
    sum = Q6_Wuh_vmpyacc_WuhVubRub(sum, at, 0x02020202);
    return Q6_Vub_vasr_VhVhR_rnd_sat(Q6_V_hi_W(sum), Q6_V_lo_W(sum), 2);
}

void blur(const uint8_t *src, int src_stride, uint8_t *dst, int dst_stride, int width, int height) {
"""


def make(arch: str, width: int, height: int, ROWS: int, UNROLL: int) -> str:  # noqa: N803
    """C, or the bytes of an object; an error refuses the config."""
    rows = [
        f"at{row} = *(const HVX_Vector *)(from + {row} * src_stride)" for row in range(ROWS + 2)
    ]
    stores = [
        f"*(HVX_Vector *)(to + {row} * dst_stride) = blurred(at{row}, at{row + 1}, at{row + 2});"
        for row in range(ROWS)
    ]
    return "\n".join(
        [
            HEAD,
            f"for (int y = 0; y < height; y += {ROWS}) {{",
            f"const int top = y + {ROWS} <= height ? y : height - {ROWS};",
            f'_Pragma("clang loop unroll_count({UNROLL})")',
            "for (int x = 0; x < width; x += sizeof(HVX_Vector)) {",
            "const uint8_t *from = src + top * src_stride + x;",
            "uint8_t *to = dst + top * dst_stride + x;",
            *(f"const HVX_Vector {row};" for row in rows),
            *stores,
            "}}}",
            "",
        ]
    )
