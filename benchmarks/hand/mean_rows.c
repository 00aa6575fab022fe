/* The distance of each pixel to the mean of its row of 256, rounded down. vrmpy adds up four bytes at
   once, five rotations the words of a vector, after which every word is the sum; WIDE rows at once
   hide that each waits for the one before. The height is a multiple of WIDE. */
#include "vectors.h"

enum { VECTORS = 2 };

static void filter(const uint8_t *restrict in, int in_stride, uint8_t *restrict out, int out_stride,
                   int width, int height) {
    for (int y = 0; y < height; y += WIDE) {
        V pixels[WIDE][VECTORS], sum[WIDE];
        EVERY(i) {
            for (int j = 0; j < VECTORS; ++j) pixels[i][j] = AT(in + i * in_stride + LANES * j);
            sum[i] = HVX(vrmpyub)(pixels[i][0], WORD(1));
            for (int j = 1; j < VECTORS; ++j)
                sum[i] = HVX(vrmpyub_acc)(sum[i], pixels[i][j], WORD(1));
        }
        for (int by = LANES / 2; by >= 4; by /= 2)
            EVERY(i) sum[i] = HVX(vaddw)(sum[i], HVX(vror)(sum[i], by));
        EVERY(i) {
            V halves = HVX(vshufeh)(sum[i], sum[i]), mean = HVX(vshuffob)(halves, halves);
            for (int j = 0; j < VECTORS; ++j)
                *(V *)(out + i * out_stride + LANES * j) = HVX(vabsdiffub)(pixels[i][j], mean);
        }
        in += WIDE * in_stride, out += WIDE * out_stride;
    }
}
