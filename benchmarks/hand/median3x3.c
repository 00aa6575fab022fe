/* Median of 3x3, edges repeated: rows are put in order (least, middle, greatest), and the result is the
   median of the least's greatest, the middles' median and the greatest's least (Paeth, Median finding
   on a 3x3 grid, Graphics Gems, 1990). Two rows at once share what they have of the two in the
   middle. The height is even. */
#include "rows.h"

#define MIN(a, b) HVX(vminub)(a, b)
#define MAX(a, b) HVX(vmaxub)(a, b)

typedef struct {
    V least[WIDE], middle[WIDE], greatest[WIDE];
} Sorted;

INLINE Sorted along(const uint8_t *p, int first, int last) {
    Sorted sorted;
    Row row = row_of(p, first, last);
    for (int i = 0; i < WIDE; ++i) {
        V low = MIN(row.left[i], row.right[i]), high = MAX(row.left[i], row.right[i]);
        sorted.least[i] = MIN(low, row.here[i]);
        sorted.middle[i] = MAX(low, MIN(high, row.here[i]));
        sorted.greatest[i] = MAX(high, row.here[i]);
    }
    return sorted;
}

INLINE V median(V a, V b, V c) {
    return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

INLINE void two_rows(Sorted *above, Sorted *here, const uint8_t *p, const uint8_t *q,
                     uint8_t *restrict out, int out_stride, int first, int last) {
    Sorted below = along(p, first, last), next = along(q, first, last);
    for (int i = 0; i < WIDE; ++i) {
        V least = MAX(here->least[i], below.least[i]);
        V low = MIN(here->middle[i], below.middle[i]);
        V high = MAX(here->middle[i], below.middle[i]);
        V greatest = MIN(here->greatest[i], below.greatest[i]);
        *(V *)(out + LANES * i) =
            median(MAX(above->least[i], least), MAX(low, MIN(high, above->middle[i])),
                   MIN(above->greatest[i], greatest));
        *(V *)(out + out_stride + LANES * i) =
            median(MAX(least, next.least[i]), MAX(low, MIN(high, next.middle[i])),
                   MIN(greatest, next.greatest[i]));
    }
    *above = below, *here = next;
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    Sorted above = along(in, first, last), here = above;
    for (int y = 0; y + 2 < height; y += 2) {
        const uint8_t *p = in + in_stride;
        in += 2 * in_stride;
        two_rows(&above, &here, p, in, out, out_stride, first, last);
        out += 2 * out_stride;
    }
    in += in_stride;
    two_rows(&above, &here, in, in, out, out_stride, first, last);
}

FOR_EACH_STRIP(strip)
