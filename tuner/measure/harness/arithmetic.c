/* Division, which Hexagon has no instruction for: the functions that compilers call.
 *
 * Shift and subtract, started at the first quotient bit that can be set, as Qualcomm's library
 * does; the packets it takes are close to that library's, not equal.
 */
#include <stdint.h>

typedef struct {
    uint32_t quotient, remainder;
} division32;

typedef struct {
    uint64_t quotient, remainder;
} division64;

static division32 divide32(uint32_t a, uint32_t b) {
    division32 result = {0, a};
    if (b == 0 || a < b)
        return result;
    for (int shift = __builtin_clz(b) - __builtin_clz(a); shift >= 0; shift--)
        if (result.remainder >= b << shift) {
            result.remainder -= b << shift;
            result.quotient |= 1u << shift;
        }
    return result;
}

static division64 divide64(uint64_t a, uint64_t b) {
    division64 result = {0, a};
    if (b == 0 || a < b)
        return result;
    for (int shift = __builtin_clzll(b) - __builtin_clzll(a); shift >= 0; shift--)
        if (result.remainder >= b << shift) {
            result.remainder -= b << shift;
            result.quotient |= 1ull << shift;
        }
    return result;
}

static uint32_t magnitude32(int32_t a) { return a < 0 ? -(uint32_t)a : (uint32_t)a; }
static uint64_t magnitude64(int64_t a) { return a < 0 ? -(uint64_t)a : (uint64_t)a; }

uint32_t __hexagon_udivsi3(uint32_t a, uint32_t b) { return divide32(a, b).quotient; }
uint32_t __hexagon_umodsi3(uint32_t a, uint32_t b) { return divide32(a, b).remainder; }
uint64_t __hexagon_udivdi3(uint64_t a, uint64_t b) { return divide64(a, b).quotient; }
uint64_t __hexagon_umoddi3(uint64_t a, uint64_t b) { return divide64(a, b).remainder; }

int32_t __hexagon_divsi3(int32_t a, int32_t b) {
    uint32_t quotient = divide32(magnitude32(a), magnitude32(b)).quotient;
    return (int32_t)((a < 0) != (b < 0) ? -quotient : quotient);
}

int32_t __hexagon_modsi3(int32_t a, int32_t b) {
    uint32_t remainder = divide32(magnitude32(a), magnitude32(b)).remainder;
    return (int32_t)(a < 0 ? -remainder : remainder);
}

int64_t __hexagon_divdi3(int64_t a, int64_t b) {
    uint64_t quotient = divide64(magnitude64(a), magnitude64(b)).quotient;
    return (int64_t)((a < 0) != (b < 0) ? -quotient : quotient);
}

int64_t __hexagon_moddi3(int64_t a, int64_t b) {
    uint64_t remainder = divide64(magnitude64(a), magnitude64(b)).remainder;
    return (int64_t)(a < 0 ? -remainder : remainder);
}
