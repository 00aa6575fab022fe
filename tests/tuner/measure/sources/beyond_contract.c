/* The kernel scale_u8 (tests/rig), out = in + 1, in ways that rely on what no contract guarantees: each
 * function is a candidate that is right on dense buffers, alike aligned, in memory full of zeros. */
#include "halide_buffer.h"

void *halide_malloc(void *, unsigned);
void halide_free(void *, void *);
void *HAP_request_VTCM(unsigned, unsigned);
int HAP_release_VTCM(void *);

enum { FORMER_FILL = 0xa5 }; /* what red zones and outputs once were full of */

static volatile uint32_t sink;

/* Right, plus `error` in each element. */
static int scale(struct buffer *in, struct buffer *out, uint32_t error) {
    for (int y = 0; y < in->dim[1].extent; y++)
        for (int x = 0; x < in->dim[0].extent; x++)
            out->host[y * out->dim[1].stride + x] =
                (uint8_t)(in->host[y * in->dim[1].stride + x] + 1 + error);
    return 0;
}

static uint8_t *end_of(const struct buffer *b) {
    return b->host + (b->dim[1].extent - 1) * b->dim[1].stride + b->dim[0].extent;
}

int ignores_strides(struct buffer *in, struct buffer *out) {
    int count = in->dim[0].extent * in->dim[1].extent;
    for (int i = 0; i < count; i++)
        out->host[i] = (uint8_t)(in->host[i] + 1);
    return 0;
}

int ignores_the_stride_of_its_output(struct buffer *in, struct buffer *out) {
    for (int y = 0; y < in->dim[1].extent; y++)
        for (int x = 0; x < in->dim[0].extent; x++)
            out->host[y * in->dim[1].stride + x] =
                (uint8_t)(in->host[y * in->dim[1].stride + x] + 1);
    return 0;
}

/* Where the input is aligned it takes the output to be, and stores drop low bits as vmem does. */
int takes_all_to_lie_alike(struct buffer *in, struct buffer *out) {
    for (int y = 0; y < in->dim[1].extent; y++) {
        const uint8_t *from = in->host + y * in->dim[1].stride;
        uint8_t *to = out->host + y * out->dim[1].stride;
        int x = 0, width = in->dim[0].extent;
        for (; x < width && ((uintptr_t)(from + x) & 7) != 0; x++)
            to[x] = (uint8_t)(from[x] + 1);
        for (; x + 8 <= width; x += 8)
            for (int i = 0; i < 8; i++)
                ((uint8_t *)((uintptr_t)(to + x) & -8u))[i] = (uint8_t)(from[x + i] + 1);
        for (; x < width; x++)
            to[x] = (uint8_t)(from[x] + 1);
    }
    return 0;
}

int is_wrong_beyond_1024_columns(struct buffer *in, struct buffer *out) {
    return scale(in, out, in->dim[0].extent > 1024);
}

int is_wrong_below_128_columns(struct buffer *in, struct buffer *out) {
    return scale(in, out, in->dim[0].extent < 128);
}

int takes_the_stack_for_zero(struct buffer *in, struct buffer *out) {
    uint8_t *stack;
    __asm__("%0 = r29" : "=r"(stack));
    return scale(in, out, *(volatile uint8_t *)(stack - 5000));
}

int takes_the_heap_for_zero(struct buffer *in, struct buffer *out) {
    volatile uint8_t *heap = halide_malloc(0, 1000);
    uint8_t found = heap[333];
    halide_free(0, (void *)heap);
    return scale(in, out, found);
}

/* Right under any pattern in which this one bit happens to be 0. */
int takes_a_bit_of_the_heap_for_zero(struct buffer *in, struct buffer *out) {
    volatile uint8_t *heap = halide_malloc(0, 1000);
    uint8_t found = heap[BIT / 8] >> BIT % 8 & 1;
    halide_free(0, (void *)heap);
    return scale(in, out, found);
}

int takes_vtcm_for_zero(struct buffer *in, struct buffer *out) {
    volatile uint8_t *vtcm = HAP_request_VTCM(1000, 1);
    uint8_t found = vtcm[333];
    HAP_release_VTCM((void *)vtcm);
    return scale(in, out, found);
}

/* What registers hold at the call comes as a third argument. */
__attribute__((used)) static int scale_wrong_if(struct buffer *in, struct buffer *out,
                                                uint32_t found) {
    return scale(in, out, found != 0);
}

#define TAKES_A_REGISTER_FOR_ZERO(name, packets)                                                   \
    int name(struct buffer *, struct buffer *);                                                    \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" packets            \
            "{ jump scale_wrong_if }\n")

TAKES_A_REGISTER_FOR_ZERO(takes_a_scalar_register_for_zero, "{ r2 = r14 }\n");
TAKES_A_REGISTER_FOR_ZERO(takes_a_predicate_for_false, "{ r2 = p3 }\n");
TAKES_A_REGISTER_FOR_ZERO(takes_a_vector_for_zero, "{ r3 = #8 }\n{ r2 = vextract(v7, r3) }\n");
TAKES_A_REGISTER_FOR_ZERO(takes_a_vector_predicate_for_false,
                          "{ r3 = ##-1 }\n{ v0 = vand(q2, r3) }\n{ r2 = vextract(v0, r3) }\n");

int uses_what_lies_before_its_input(struct buffer *in, struct buffer *out) {
    return scale(in, out, ((volatile uint8_t *)in->host)[-1] ^ FORMER_FILL);
}

int uses_what_its_output_held(struct buffer *in, struct buffer *out) {
    return scale(in, out, *(volatile uint8_t *)out->host ^ FORMER_FILL);
}

int reads_far_behind_its_input(struct buffer *in, struct buffer *out) {
    sink = *(volatile uint8_t *)(end_of(in) + 300);
    return scale(in, out, 0);
}

int reads_far_before_its_input(struct buffer *in, struct buffer *out) {
    sink = *(volatile uint8_t *)(in->host - 300);
    return scale(in, out, 0);
}

/* Masked vectors may reach a little beyond a buffer; this is no end of a row. */
int loads_a_vector_far_before_its_input(struct buffer *in, struct buffer *out) {
    __asm__ volatile("{ v0 = vmem(%0 + #0) }" : : "r"(in->host - 6 * 128) : "v0");
    return scale(in, out, 0);
}

/* Where one buffer lies beside the other, if they are not kept far apart. */
static uint32_t between(const struct buffer *in, const struct buffer *out) {
    return (uint32_t)(out->host - in->host) & 0x3ffffff;
}

int reads_its_output_by_way_of_its_input(struct buffer *in, struct buffer *out) {
    sink = *(volatile uint8_t *)(in->host + between(in, out));
    return scale(in, out, 0);
}

int loads_a_vector_of_its_input_by_way_of_its_output(struct buffer *in, struct buffer *out) {
    __asm__ volatile("{ v0 = vmem(%0 + #0) }" : : "r"(out->host - between(in, out)) : "v0");
    return scale(in, out, 0);
}

int loads_a_vector_of_its_output_by_way_of_its_input(struct buffer *in, struct buffer *out) {
    __asm__ volatile("{ v0 = vmem(%0 + #0) }" : : "r"(in->host + between(in, out) + 128) : "v0");
    return scale(in, out, 0);
}

static void write_and_restore(volatile uint8_t *at) {
    uint8_t kept = *at;
    *at = 0;
    *at = kept;
}

int writes_behind_its_output_for_a_moment(struct buffer *in, struct buffer *out) {
    write_and_restore(end_of(out));
    return scale(in, out, 0);
}

int writes_before_its_output_for_a_moment(struct buffer *in, struct buffer *out) {
    write_and_restore(out->host - 1);
    return scale(in, out, 0);
}

int writes_the_padding_of_rows_for_a_moment(struct buffer *in, struct buffer *out) {
    if (out->dim[1].stride > out->dim[0].extent)
        write_and_restore(out->host + out->dim[0].extent);
    return scale(in, out, 0);
}

int writes_its_input_for_a_moment(struct buffer *in, struct buffer *out) {
    write_and_restore(in->host + 3);
    return scale(in, out, 0);
}

int loads_a_misaligned_word(struct buffer *in, struct buffer *out) {
    sink = *(volatile uint32_t *)(((uintptr_t)in->host & -4u) + 5);
    return scale(in, out, 0);
}

int stores_a_misaligned_halfword(struct buffer *in, struct buffer *out) {
    *(volatile uint16_t *)((uintptr_t)out->host | 1) = 0;
    return scale(in, out, 0);
}

/* Each counts one thing in a type that is too narrow for what no contract forbids. */
#define COUNTS_NARROWLY(name, narrow_x, narrow_y, narrow_at)                                 \
    int name(struct buffer *in, struct buffer *out) {                                              \
        for (int y = 0; y < in->dim[1].extent; y++)                                                \
            for (int x = 0; x < in->dim[0].extent; x++) {                                          \
                int from = narrow_y(y) * in->dim[1].stride + narrow_x(x);                          \
                int to = narrow_y(y) * out->dim[1].stride + narrow_x(x);                           \
                out->host[narrow_at(to)] = (uint8_t)(in->host[narrow_at(from)] + 1);               \
            }                                                                                      \
        return 0;                                                                                  \
    }

#define WIDE(number) (number)
#define IN_U16(number) ((uint16_t)(number))
#define IN_I16(number) ((int16_t)(number))

COUNTS_NARROWLY(counts_elements_in_u16, WIDE, WIDE, IN_U16)
COUNTS_NARROWLY(counts_elements_in_i16, WIDE, WIDE, IN_I16)
COUNTS_NARROWLY(counts_rows_in_i16, WIDE, IN_I16, WIDE)
COUNTS_NARROWLY(counts_columns_in_i16, IN_I16, WIDE, WIDE)
COUNTS_NARROWLY(counts_in_words, WIDE, WIDE, WIDE)
