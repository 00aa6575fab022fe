#include <stdint.h>

static uint64_t turned(uint64_t x, int by) { return x >> by | x << (64 - by); }
static uint64_t s0(uint64_t x) { return turned(x, 1) ^ turned(x, 8) ^ x >> 7; }
static uint64_t s1(uint64_t x) { return turned(x, 19) ^ turned(x, 61) ^ x >> 6; }

void schedule(const uint32_t *src, uint32_t *dst, int words) {
    uint64_t *w = (uint64_t *)dst;
    for (int i = 0; i < 16; i++)
        w[i] = (uint64_t)src[2 * i + 1] << 32 | src[2 * i];
#pragma clang loop unroll_count(UNROLL)
    for (int i = 16; i < words; i++)
        w[i] = s1(w[i - 2]) + w[i - 7] + s0(w[i - 15]) + w[i - 16];
}
