/* Mean of 3x3, edges repeated: sums along rows by vtmpy (1 1 1), then down columns, two rows at once,
   which share the sum of the two in the middle; the division by 9 is a multiplication that rounds.
   The height is even. */
#include "rows.h"

INLINE void along(W *sums, const uint8_t *p, int first, int last) {
    Row row = row_of(p, first, last);
    EVERY(i) sums[i] = HVX(vtmpybus)(HVX(vcombine)(row.right[i], row.left[i]), WORD(1));
}

/* (sum + 4) / 9, of sums up to 9 * 255: as (sum * 3641 + 2**14) >> 15, which is right for all. */
INLINE V ninth(W sums) {
    V even = HVX(vmpyhsrs)(HVX(lo)(sums), 3641 * 0x10001);
    V odd = HVX(vmpyhsrs)(HVX(hi)(sums), 3641 * 0x10001);
    return HVX(vshuffeb)(odd, even);
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    W above[WIDE], here[WIDE];
    along(above, in, first, last);
    EVERY(i) here[i] = above[i];
    for (int y = 0; y < height; y += 2) {
        W below[WIDE], next[WIDE];
        along(below, in + in_stride, first, last);
        along(next, in + (y + 2 < height ? 2 : 1) * in_stride, first, last);
        EVERY(i) {
            W shared = HVX(vaddh_dv)(here[i], below[i]);
            *(V *)(out + LANES * i) = ninth(HVX(vaddh_dv)(above[i], shared));
            *(V *)(out + out_stride + LANES * i) = ninth(HVX(vaddh_dv)(shared, next[i]));
            above[i] = below[i], here[i] = next[i];
        }
        in += 2 * in_stride, out += 2 * out_stride;
    }
}

FOR_EACH_STRIP(strip)
