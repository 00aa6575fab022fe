/* The kernel scale_u8 (tests/rig), out = in + 1, by hand: well, or wrong in one chosen way. */
#include "halide_buffer.h"

enum behaviour {
    WELL,
    WRONG_BYTE,
    PAST_THE_END,
    BEFORE_THE_START,
    IN_THE_PADDING,
    CHANGES_ITS_INPUT,
    NOTHING_AT_ALL,
    HANGS,
    HANGS_LATER,
    RECURSES,
    NULL_STORE,
    WRITES_ITS_CODE,
    TRAPS,
    RETURNS_AN_ERROR,
    REPORTS_AN_ERROR,
    EXITS,
    OPENS_A_FILE,
    PRINTS_FOR_EVER,
    FORKS,
    KILLS,
    MAPS_MEMORY,
    TAKES_TOO_MUCH_MEMORY,
    TAKES_TOO_MUCH_VTCM,
    USES_HEAP_AND_VTCM,
    SLOW,
    COUNTS_IN_16_BITS,
};

void *halide_malloc(void *, unsigned);
void halide_free(void *, void *);
void *HAP_request_VTCM(unsigned, unsigned);
int HAP_release_VTCM(void *);
void halide_error(void *, const char *);
int halide_error_out_of_memory(void *);

static int system_call(int number, uint32_t a, uint32_t b, uint32_t c) {
    register uint32_t r0 __asm__("r0") = a;
    register uint32_t r1 __asm__("r1") = b;
    register uint32_t r2 __asm__("r2") = c;
    register int r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r6) : "memory");
    return (int)r0;
}

static volatile uint32_t sink;
static volatile uint32_t calls;

static __attribute__((noinline)) uint32_t recurse(volatile uint32_t *above) {
    volatile uint32_t here[64] = {*above};
    return *above == 12345 ? 0 : recurse(here) + here[1];
}

static int counted(int at) { return BEHAVIOUR == COUNTS_IN_16_BITS ? (uint16_t)at : at; }

static void scale(struct buffer *in, struct buffer *out) {
    for (int y = 0; y < in->dim[1].extent; y++)
        for (int x = 0; x < in->dim[0].extent; x++)
            out->host[counted(y * out->dim[1].stride + x)] =
                (uint8_t)(in->host[counted(y * in->dim[1].stride + x)] + 1);
}

static int misbehave(enum behaviour behaviour, struct buffer *in, struct buffer *out) {
    uint8_t *last_row = out->host + (out->dim[1].extent - 1) * out->dim[1].stride;
    void *taken;
    switch (behaviour) {
    case WRONG_BYTE: out->host[out->dim[1].stride + 7] ^= 1; break;
    case PAST_THE_END: last_row[out->dim[1].stride + 100] = 0; break;
    case BEFORE_THE_START: out->host[-1] = 0; break;
    case IN_THE_PADDING: out->host[out->dim[0].extent] = 0; break;
    case CHANGES_ITS_INPUT: in->host[3]++; break;
    case HANGS:
        for (;;)
            sink++;
    case HANGS_LATER:
        while (calls > 1)
            sink++;
        break;
    case RECURSES: return (int)recurse(&sink);
    case NULL_STORE: *(volatile uint32_t *)0 = 1; break;
    case WRITES_ITS_CODE: *(volatile uint32_t *)scale = 0; break;
    case TRAPS: __asm__ volatile(".word 0x6fffffff"); break;
    case RETURNS_AN_ERROR: return -42;
    case REPORTS_AN_ERROR: halide_error(0, "the moon is in the wrong house"); return -1;
    case EXITS: return system_call(94, 0, 0, 0);
    case OPENS_A_FILE: return system_call(56, -100u, (uint32_t) "/tmp/candidate-was-here", 0x42);
    case PRINTS_FOR_EVER:
        for (;;)
            system_call(64, 1, (uint32_t) "more and more and more\n", 23);
    case FORKS: return system_call(220, 17, 0, 0);
    case KILLS: return system_call(129, (uint32_t)-1, 9, 0);
    case MAPS_MEMORY: return system_call(222, 0, 1 << 30, 3);
    case TAKES_TOO_MUCH_MEMORY:
        for (int i = 0; i < 5000; i++)
            if ((taken = halide_malloc(0, 1 << 20)) == 0)
                return halide_error_out_of_memory(0);
        break;
    case TAKES_TOO_MUCH_VTCM:
        if (HAP_request_VTCM(1 << 30, 1) == 0)
            return halide_error_out_of_memory(0);
        break;
    case USES_HEAP_AND_VTCM:
        for (int i = 0; i < 5000; i++) { /* would not fit if nothing were given back */
            void *first = halide_malloc(0, 1 << 20), *second = halide_malloc(0, 100);
            taken = HAP_request_VTCM(128 << 10, 1);
            if (first == 0 || second == 0 || taken == 0)
                return -1;
            *(volatile uint8_t *)first = *(volatile uint8_t *)taken = 1;
            halide_free(0, first);
            halide_free(0, second);
            HAP_release_VTCM(taken);
        }
        break;
    case SLOW:
        for (int i = 0; i < 100000; i++)
            sink++;
        break;
    default: break;
    }
    return 0;
}

int ENTRY(struct buffer *in, struct buffer *out) {
    calls++;
    if (BEHAVIOUR != NOTHING_AT_ALL)
        scale(in, out);
    return misbehave(BEHAVIOUR, in, out);
}
