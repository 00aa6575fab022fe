/* dst[y][x] = (src[y][x] + 2 * src[y + 1][x] + src[y + 2][x] + 2) / 4. Rows start on vectors'
   boundaries, and are whole vectors. ROWS and UNROLL are knobs of kernel.toml. */
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#include <stdint.h>

enum { VECTOR = sizeof(HVX_Vector) };

/* Even pixels are in the lower vector of a pair, odd ones in the upper. */
static inline HVX_Vector blurred(HVX_Vector above, HVX_Vector at, HVX_Vector below) {
    HVX_VectorPair sum = Q6_Wh_vadd_VubVub(above, below);
    sum = Q6_Wuh_vmpyacc_WuhVubRub(sum, at, 0x02020202);
    return Q6_Vub_vasr_VhVhR_rnd_sat(Q6_V_hi_W(sum), Q6_V_lo_W(sum), 2);
}

void blur(const uint8_t *src, int src_stride, uint8_t *dst, int dst_stride, int width, int height) {
    for (int y = 0; y < height; y += ROWS) {
        /* The last walk begins early rather than end late: some rows are written twice. */
        const int top = y + ROWS <= height ? y : height - ROWS;
#pragma clang loop unroll_count(UNROLL)
        for (int x = 0; x < width; x += VECTOR) {
            const uint8_t *from = src + top * src_stride + x;
            uint8_t *to = dst + top * dst_stride + x;
            HVX_Vector above = *(const HVX_Vector *)from;
            HVX_Vector at = *(const HVX_Vector *)(from + src_stride);
#pragma clang loop unroll(full)
            for (int row = 0; row < ROWS; ++row) {
                HVX_Vector below = *(const HVX_Vector *)(from + (row + 2) * src_stride);
                *(HVX_Vector *)(to + row * dst_stride) = blurred(above, at, below);
                above = at;
                at = below;
            }
        }
    }
}
