/* C = A B in tiles of ROWS rows and VECTORS vectors whose sums stay in registers. A quad of rows of
   B lies as vrmpy reads it: four bytes of a column side by side. */
#include <hexagon_protos.h>
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#include <stdint.h>

enum { WORDS = sizeof(HVX_Vector) / 4, COLUMNS = VECTORS * WORDS };

#define EVERY _Pragma("clang loop unroll(full)")

static inline void tile(const uint8_t *a, int a_stride, const uint8_t *b, int b_stride, int32_t *c,
                        int c_stride, int quads) {
    HVX_Vector sums[ROWS][VECTORS];
    EVERY for (int row = 0; row < ROWS; ++row)
        EVERY for (int at = 0; at < VECTORS; ++at) sums[row][at] = Q6_V_vzero();
#pragma clang loop unroll_count(UNROLL)
    for (int quad = 0; quad < quads; ++quad) {
        const HVX_Vector *from = (const HVX_Vector *)(b + quad * b_stride);
        HVX_Vector columns[VECTORS];
        EVERY for (int at = 0; at < VECTORS; ++at) columns[at] = from[at];
#if AHEAD > 0
        Q6_dcfetch_A((void *)(b + (quad + AHEAD) * b_stride));
#endif
        EVERY for (int row = 0; row < ROWS; ++row) {
            const uint32_t four = *(const uint32_t *)(a + row * a_stride + 4 * quad);
            EVERY for (int at = 0; at < VECTORS; ++at)
                sums[row][at] = Q6_Vuw_vrmpyacc_VuwVubRub(sums[row][at], columns[at], four);
        }
    }
    EVERY for (int row = 0; row < ROWS; ++row)
        EVERY for (int at = 0; at < VECTORS; ++at)
            ((HVX_Vector *)(c + row * c_stride))[at] = sums[row][at];
}

void gemm(const uint8_t *a, int a_stride, const uint8_t *b, int b_stride, int32_t *c, int c_stride,
          int m, int n, int k) {
    for (int x = 0; x < n; x += COLUMNS) {
        /* The last tiles begin early rather than end late: some of C is written twice. */
        const int left = x + COLUMNS <= n ? x : n - COLUMNS;
        for (int y = 0; y < m; y += ROWS) {
            const int top = y + ROWS <= m ? y : m - ROWS;
            tile(a + top * a_stride, a_stride, b + 4 * left, b_stride, c + top * c_stride + left,
                 c_stride, k / 4);
        }
    }
}
