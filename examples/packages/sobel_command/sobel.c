/* |dx| + |dy| of Sobel's 3x3 windows, at most 255. */
#include <stdint.h>

void sobel(const uint8_t *restrict src, int src_stride, uint8_t *restrict dst, int dst_stride,
           int width, int height) {
    for (int y = 0; y < height; ++y) {
        const uint8_t *above = src + y * src_stride;
        const uint8_t *at = above + src_stride;
        const uint8_t *below = at + src_stride;
        uint8_t *to = dst + y * dst_stride;
        for (int x = 0; x < width; ++x) {
            const int16_t left = (int16_t)(above[x] + 2 * at[x] + below[x]);
            const int16_t right = (int16_t)(above[x + 2] + 2 * at[x + 2] + below[x + 2]);
            const int16_t up = (int16_t)(above[x] + 2 * above[x + 1] + above[x + 2]);
            const int16_t down = (int16_t)(below[x] + 2 * below[x + 1] + below[x + 2]);
            const int16_t dx = (int16_t)(left < right ? right - left : left - right);
            const int16_t dy = (int16_t)(up < down ? down - up : up - down);
            const int16_t sum = (int16_t)(dx + dy);
            to[x] = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}
