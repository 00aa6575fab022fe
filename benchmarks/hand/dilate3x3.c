/* Maximum of 3x3, edges repeated: maxima along rows, then down columns, two rows at once, which share
   the maximum of the two in the middle. The height is even. */
#include "rows.h"

INLINE void along(V *most, const uint8_t *p, int first, int last) {
    Row row = row_of(p, first, last);
    for (int i = 0; i < WIDE; ++i)
        most[i] = HVX(vmaxub)(HVX(vmaxub)(row.here[i], row.left[i]), row.right[i]);
}

INLINE void two_rows(V *above, V *here, const uint8_t *p, const uint8_t *q, uint8_t *restrict out,
                     int out_stride, int first, int last) {
    V below[WIDE], next[WIDE];
    along(below, p, first, last);
    along(next, q, first, last);
    for (int i = 0; i < WIDE; ++i) {
        V shared = HVX(vmaxub)(here[i], below[i]);
        *(V *)(out + LANES * i) = HVX(vmaxub)(above[i], shared);
        *(V *)(out + out_stride + LANES * i) = HVX(vmaxub)(shared, next[i]);
        above[i] = below[i], here[i] = next[i];
    }
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    V above[WIDE], here[WIDE];
    along(above, in, first, last);
    for (int i = 0; i < WIDE; ++i) here[i] = above[i];
    for (int y = 0; y + 2 < height; y += 2) {
        const uint8_t *p = in + in_stride;
        in += 2 * in_stride;
        two_rows(above, here, p, in, out, out_stride, first, last);
        out += 2 * out_stride;
    }
    in += in_stride;
    two_rows(above, here, in, in, out, out_stride, first, last);
}

FOR_EACH_STRIP(strip)
