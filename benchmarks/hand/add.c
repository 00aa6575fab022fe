/* Requantized sum of two images: vmpa adds both products, one subtraction all zero points, and rounding,
   shift and saturation are one operation. Rows follow one another without gaps; WIDE vectors at once. */
#include "vectors.h"

enum { BIAS = (128 << 8) - 128 * 120 - 128 * 90, WEIGHTS = 90 << 8 | 120 };

static void filter(const uint8_t *restrict a, const uint8_t *restrict b, uint8_t *restrict out,
                   int size) {
    V bias = HVX(lvsplatw)(BIAS * 0x10001);
    W biases = HVX(vcombine)(bias, bias);
    for (int x = 0; x < size; x += WIDE * LANES) EVERY(i) {
        int at = x + LANES * i;
        W sum = HVX(vmpabuu)(HVX(vcombine)(AT(b + at), AT(a + at)), WEIGHTS * 0x10001);
        sum = HVX(vadduhsat_dv)(sum, biases);
        *(V *)(out + at) = HVX(vrounduhub)(HVX(hi)(sum), HVX(lo)(sum));
    }
}
