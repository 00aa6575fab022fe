/* 1 4 6 4 1 down, then along, edges repeated. Down columns first, so that each row is widened once:
   vmpa adds two rows by their weights. Sums are 16 bits, even and odd pixels apart, and the taps
   along a row are shifts of these by one halfword. */
#include "rows.h"

typedef struct {
    V even, odd;
} Sums;

INLINE Sums down(const uint8_t *const *rows, int at) {
    W sums = HVX(vaddubh)(AT(rows[0] + at), AT(rows[4] + at));
    sums = HVX(vmpabus_acc)(sums, HVX(vcombine)(AT(rows[3] + at), AT(rows[1] + at)), WORD(4));
    sums = HVX(vmpybus_acc)(sums, AT(rows[2] + at), WORD(6));
    return (Sums){HVX(lo)(sums), HVX(hi)(sums)};
}

/* The sums of a pixel at the edge again, in every halfword. */
INLINE Sums again(V sums, int is_last) {
    V splat = HVX(vdelta)(sums, is_last ? HVX(vxor)(HVX(vand)(AT(lanes), HVX(lvsplatw)(WORD(0x7e))),
                                                    HVX(lvsplatw)(WORD(0x7e)))
                                        : HVX(vand)(AT(lanes), HVX(lvsplatw)(WORD(0x7e))));
    return (Sums){splat, splat};
}

/* Rounded 1 4 6 4 1 of two pixels to each side: even pixel 2i has odd ones i - 1 and i beside it. */
INLINE V along(Sums before, Sums here, Sums after) {
    V even_left = HVX(vlalignbi)(here.even, before.even, 2);
    V odd_left = HVX(vlalignbi)(here.odd, before.odd, 2);
    V even_right = HVX(valignbi)(after.even, here.even, 2);
    V odd_right = HVX(valignbi)(after.odd, here.odd, 2);
    V even = HVX(vaddh)(even_left, even_right), odd = HVX(vaddh)(odd_left, odd_right);
    even = HVX(vaddh)(even, HVX(vaslh)(HVX(vaddh)(odd_left, here.odd), 2));
    odd = HVX(vaddh)(odd, HVX(vaslh)(HVX(vaddh)(here.even, even_right), 2));
    even = HVX(vmpyihb_acc)(even, here.even, WORD(6));
    odd = HVX(vmpyihb_acc)(odd, here.odd, WORD(6));
    return HVX(vrounduhub)(odd, even);
}

INLINE void strip(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                  int height, int first, int last) {
    for (int y = 0; y < height; ++y) {
        const uint8_t *rows[5];
        for (int i = 0; i < 5; ++i) rows[i] = in + clamped(y + i - 2, 0, height - 1) * in_stride;
        Sums sums[WIDE + 2];
        EVERY(i) sums[i + 1] = down(rows, LANES * i);
        sums[0] = first ? again(sums[1].even, 0) : down(rows, -LANES);
        sums[WIDE + 1] = last ? again(sums[WIDE].odd, 1) : down(rows, WIDE * LANES);
        EVERY(i) *(V *)(out + LANES * i) = along(sums[i], sums[i + 1], sums[i + 2]);
        out += out_stride;
    }
}

FOR_EACH_STRIP(strip)
