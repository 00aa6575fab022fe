/* Luma of interleaved colours. Three vectors hold 128 pixels; a channel is blended from them, for no two
   of its bytes lie in the same lane, and then put in order by one permute, of three in all (OpenCV
   takes colours apart like this for SSE4.1). Rows follow one another without gaps; WIDE vectors at
   once. */
#include "vectors.h"

enum { CHANNELS = 3 };

#define THIRDS_4(n) (n) % 3, ((n) + 1) % 3, ((n) + 2) % 3, ((n) + 3) % 3
#define THIRDS(n) THIRDS_4(n), THIRDS_4((n) + 4), THIRDS_4((n) + 8), THIRDS_4((n) + 12)
static const uint8_t thirds[LANES] __attribute__((aligned(128))) = {
    THIRDS(0),  THIRDS(16), THIRDS(32), THIRDS(48),
    THIRDS(64), THIRDS(80), THIRDS(96), THIRDS(112)};

/* Lanes of `one` where the lane's number modulo 3 is `third`, others of `other`. */
INLINE V blended(int third, V one, V other) {
    V mask = HVX(vxor)(AT(thirds), HVX(lvsplatw)(WORD(third % CHANNELS)));
    return HVX(vmux)(HVX(vandvrt)(mask, WORD(3)), other, one);
}

/* Lane j of the result is lane 3 j + channel (modulo 128): vrdelta goes from the lowest bit of a lane's
   number to the highest, and the lower bits of 3 j + channel follow from the lower ones of j. */
INLINE V of_channel(V mixed, int channel) {
    V lane = AT(lanes), first = HVX(vaddb)(lane, HVX(lvsplatw)(WORD(channel)));
    return HVX(vrdelta)(mixed, HVX(vxor)(lane, HVX(vaddb)(HVX(vaddb)(lane, lane), first)));
}

static void filter(const uint8_t *restrict in, uint8_t *restrict out, int pixels) {
    for (int x = 0; x < pixels; x += WIDE * LANES) EVERY(i) {
        const uint8_t *p = in + CHANNELS * (x + LANES * i);
        V first = AT(p), second = AT(p + LANES), third = AT(p + 2 * LANES), channels[CHANNELS];
        for (int c = 0; c < CHANNELS; ++c)
            channels[c] = of_channel(blended(c, first, blended(c + 1, second, third)), c);
        W sum = HVX(vmpabuu)(HVX(vcombine)(channels[1], channels[0]), (150 << 8 | 77) * 0x10001);
        sum = HVX(vmpyub_acc)(sum, channels[2], WORD(29));
        *(V *)(out + x + LANES * i) = HVX(vrounduhub)(HVX(hi)(sum), HVX(lo)(sum));
    }
}
