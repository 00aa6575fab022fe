/* Runs the candidate on every case of an image. Knows nothing of the system it runs on. */
#include <stddef.h>

#include "halide_buffer.h"
#include "harness.h"

struct argument {
    struct halide_buffer buffer;
    struct halide_dimension dim[IMAGE_DIMENSIONS];
};

struct runtime runtime;

/* What the candidate gets: it may write here, so nothing is read back. */
static struct argument arguments[MAX_ARGUMENTS];
static void *pointers[MAX_ARGUMENTS];

static void fill(struct argument *argument, const struct image_buffer *from, uint8_t *part) {
    argument->buffer = (struct halide_buffer){
        .host = part + from->data_offset,
        .type_code = from->type_code,
        .type_bits = from->type_bits,
        .type_lanes = 1,
        .dimensions = from->dimensions,
        .dim = argument->dim,
    };
    for (int d = 0; d < from->dimensions; d++)
        argument->dim[d] =
            (struct halide_dimension){from->min[d], from->extent[d], from->stride[d], 0};
}

/* What is passed in a register: the address of a buffer, or a value. */
static void *argument_of(uint32_t number, const struct image_buffer *from, uint8_t *part) {
    if (from->dimensions == IMAGE_SCALAR)
        return (void *)(uintptr_t)from->data_offset;
    fill(&arguments[number], from, part);
    return &arguments[number].buffer;
}

static int run_case(struct image_header *image, const struct image_case *one) {
    uint8_t *bytes = (uint8_t *)image;
    const struct image_buffer *buffers = (const void *)(bytes + one->buffers_offset);
    uint8_t *part = open_case(image, one);
    for (uint32_t i = 0; i < MAX_ARGUMENTS; i++)
        pointers[i] = i < one->buffer_count ? argument_of(i, &buffers[i], view_of(part, one, i)) : NULL;
    int result = call_candidate(pointers, one->buffer_count);
    close_case(one);
    return result;
}

/* What a call said that may refuse its case is no message of the run. */
static void forget_errors(struct image_report *report) {
    report->vtcm_refused_bytes = report->heap_refused_bytes = 0;
    report->message[0] = 0;
}

/* Which cases were refused is kept where no candidate can write, until the last one has run. */
int run_cases(struct image_header *image, void *heap, void *vtcm) {
    struct image_report *report = (void *)((uint8_t *)image + image->report_offset);
    const struct image_case *cases = (const void *)((uint8_t *)image + image->cases_offset);
    uint32_t refused = 0;
    for (uint32_t number = 0; number < image->case_count; number++) {
        runtime.report = report;
        arena_open(&runtime.heap, heap, image->heap_bytes, image->alignment_bytes);
        arena_open(&runtime.vtcm, vtcm, image->vtcm_bytes, image->alignment_bytes);
        int result = run_case(image, &cases[number]);
        report->result = result;
        if (result != 0 && !cases[number].may_refuse)
            return 1;
        if (result != 0) {
            refused |= 1u << number;
            forget_errors(report);
        }
        report->finished_cases = number + 1;
    }
    report->refused_cases = refused;
    return 0;
}
