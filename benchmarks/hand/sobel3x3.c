/* min(|gx| + |gy|, 255), edges repeated. vtmpy makes 1 2 1 of a row, vsub -1 0 1; both are 16 bits,
   even and odd pixels apart, and combined down columns, two rows at once: 1 2 1 down is the sum of
   two neighbours, twice. The height is even. */
#include "rows.h"

typedef struct {
    W smooth[WIDE], slope[WIDE];
} Sums;

INLINE Sums along(const uint8_t *p, int first, int last) {
    Sums sums;
    Row row = row_of(p, first, last);
    for (int i = 0; i < WIDE; ++i) {
        sums.smooth[i] = HVX(vtmpybus)(HVX(vcombine)(row.right[i], row.left[i]), 0x02010201);
        sums.slope[i] = HVX(vsububh)(row.right[i], row.left[i]);
    }
    return sums;
}

INLINE V magnitude(V gx, V above, V below) {
    return HVX(vaddh)(HVX(vabsh)(gx), HVX(vabsdiffh)(above, below));
}

INLINE V edge(W gx, W above, W below) {
    V odd = magnitude(HVX(hi)(gx), HVX(hi)(above), HVX(hi)(below));
    V even = magnitude(HVX(lo)(gx), HVX(lo)(above), HVX(lo)(below));
    return HVX(vsathub)(odd, even);
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    Sums here = along(in, first, last);
    W above[WIDE], pair[WIDE];
    for (int i = 0; i < WIDE; ++i) {
        above[i] = here.smooth[i];
        pair[i] = HVX(vaddh_dv)(here.slope[i], here.slope[i]);
    }
    for (int y = 0; y < height; y += 2) {
        Sums below = along(in + in_stride, first, last);
        int last_pair = y + 2 >= height;
        Sums next = along(in + (last_pair ? 1 : 2) * in_stride, first, last);
        for (int i = 0; i < WIDE; ++i) {
            W middle = HVX(vaddh_dv)(here.slope[i], below.slope[i]);
            W lower = HVX(vaddh_dv)(below.slope[i], next.slope[i]);
            V upper_edge = edge(HVX(vaddh_dv)(pair[i], middle), above[i], below.smooth[i]);
            *(V *)(out + LANES * i) = upper_edge;
            V lower_edge = edge(HVX(vaddh_dv)(middle, lower), here.smooth[i], next.smooth[i]);
            *(V *)(out + out_stride + LANES * i) = lower_edge;
            above[i] = below.smooth[i], pair[i] = lower;
        }
        here = next;
        in += 2 * in_stride, out += 2 * out_stride;
    }
}

FOR_EACH_STRIP(strip)
