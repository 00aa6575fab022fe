/* Twice a pixel less the rounded binomial mean of 3x3, edges repeated: vtmpy makes 1 2 1 of a row, down
   columns 1 2 1 is the sum of two neighbours, twice; two rows at once share sums. The height is
   even. */
#include "rows.h"

typedef struct {
    W smooth[WIDE];
    V pixels[WIDE];
} Sums;

INLINE Sums along(const uint8_t *p, int first, int last) {
    Sums sums;
    Row row = row_of(p, first, last);
    EVERY(i) {
        sums.smooth[i] = HVX(vtmpybus)(HVX(vcombine)(row.right[i], row.left[i]), 0x02010201);
        sums.pixels[i] = row.here[i];
    }
    return sums;
}

INLINE V sharper(W sum, V pixels) {
    V blurred = HVX(vasrhubrndsat)(HVX(hi)(sum), HVX(lo)(sum), 4);
    W difference = HVX(vsubh_dv)(HVX(vaddubh)(pixels, pixels), HVX(vzb)(blurred));
    return HVX(vsathub)(HVX(hi)(difference), HVX(lo)(difference));
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    Sums here = along(in, first, last);
    W pair[WIDE];
    EVERY(i) pair[i] = HVX(vaddh_dv)(here.smooth[i], here.smooth[i]);
    for (int y = 0; y < height; y += 2) {
        Sums below = along(in + in_stride, first, last);
        Sums next = along(in + (y + 2 < height ? 2 : 1) * in_stride, first, last);
        EVERY(i) {
            W middle = HVX(vaddh_dv)(here.smooth[i], below.smooth[i]);
            W lower = HVX(vaddh_dv)(below.smooth[i], next.smooth[i]);
            *(V *)(out + LANES * i) = sharper(HVX(vaddh_dv)(pair[i], middle), here.pixels[i]);
            *(V *)(out + out_stride + LANES * i) =
                sharper(HVX(vaddh_dv)(middle, lower), below.pixels[i]);
            pair[i] = lower;
        }
        here = next;
        in += 2 * in_stride, out += 2 * out_stride;
    }
}

FOR_EACH_STRIP(strip)
