/* Weights 1 2 1, 2 4 2, 1 2 1 over 16. Nothing is said of addresses and strides: clang makes
   unaligned vector loads. */
#include <stdint.h>

#define DIRECT 0
#define SEPARATE 1
#define TEXT(x) #x
#define PRAGMA(x) _Pragma(TEXT(clang loop x))
#define VECTORS PRAGMA(vectorize_width(LANES) interleave_count(INTERLEAVE) unroll_count(UNROLL))

void binomial3x3(const uint8_t *restrict src, int src_stride, uint8_t *restrict dst, int dst_stride,
                 int width, int height) {
    for (int y = 0; y < height; ++y) {
        const uint8_t *above = src + y * src_stride;
        const uint8_t *at = above + src_stride;
        const uint8_t *below = at + src_stride;
        uint8_t *to = dst + y * dst_stride;
#if FORM == DIRECT
        VECTORS for (int x = 0; x < width; ++x) {
            const uint16_t sum = (uint16_t)(above[x] + 2 * above[x + 1] + above[x + 2] + 2 * at[x] +
                                            4 * at[x + 1] + 2 * at[x + 2] + below[x] +
                                            2 * below[x + 1] + below[x + 2] + 8);
            to[x] = (uint8_t)(sum >> 4);
        }
#else
        uint16_t columns[4096 + 2];
        VECTORS for (int x = 0; x < width + 2; ++x)
            columns[x] = (uint16_t)(above[x] + 2 * at[x] + below[x]);
        VECTORS for (int x = 0; x < width; ++x) {
            const uint16_t sum = (uint16_t)(columns[x] + 2 * columns[x + 1] + columns[x + 2] + 8);
            to[x] = (uint8_t)(sum >> 4);
        }
#endif
    }
}
