/* Minimum of 5x5, edges repeated: minima along rows, then down columns, two rows at once, which share
   the minimum of the four in the middle. The height is even. */
#include "rows.h"

#define MIN(a, b) HVX(vminub)(a, b)

INLINE void along(V *least, const uint8_t *p, int first, int last) {
    V row[WIDE + 2];
    EVERY(i) row[i + 1] = AT(p + LANES * i);
    row[0] = first ? BEFORE(row[1]) : AT(p - LANES);
    row[WIDE + 1] = last ? AFTER(row[WIDE]) : AT(p + WIDE * LANES);
    EVERY(i) {
        V left = MIN(HVX(vlalignbi)(row[i + 1], row[i], 2), HVX(vlalignbi)(row[i + 1], row[i], 1));
        V right = MIN(HVX(valignbi)(row[i + 2], row[i + 1], 2),
                      HVX(valignbi)(row[i + 2], row[i + 1], 1));
        least[i] = MIN(MIN(left, right), row[i + 1]);
    }
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    V rows[6][WIDE];
    for (int r = 0; r < 4; ++r) along(rows[r], in + (r > 2 ? r - 2 : 0) * in_stride, first, last);
    for (int y = 0; y < height; y += 2) {
        int is_last = y + 2 >= height;
        along(rows[4], in + (is_last ? 1 : 2) * in_stride, first, last);
        along(rows[5], in + (is_last ? 1 : y + 3 < height ? 3 : 2) * in_stride, first, last);
        EVERY(i) {
            V shared = MIN(MIN(rows[1][i], rows[2][i]), MIN(rows[3][i], rows[4][i]));
            *(V *)(out + LANES * i) = MIN(rows[0][i], shared);
            *(V *)(out + out_stride + LANES * i) = MIN(shared, rows[5][i]);
            for (int r = 0; r < 4; ++r) rows[r][i] = rows[r + 2][i];
        }
        in += 2 * in_stride, out += 2 * out_stride;
    }
}

FOR_EACH_STRIP(strip)
