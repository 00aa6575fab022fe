/* The memory image a measurer prepares: a header, the cases with their buffers, and the data.
 *
 * The candidate works on the image in place and the measurer reads it back, so every byte that
 * should not have changed can be compared on the host. All numbers are little endian; offsets
 * are in bytes from the start of the image. tuner/measure/image.py writes the same layout.
 */
#ifndef HVXTUNE_IMAGE_H
#define HVXTUNE_IMAGE_H

#include <stdint.h>

#define IMAGE_MAGIC 0x49565848u /* "HXVI" */
#define IMAGE_VERSION 7u
#define IMAGE_DIMENSIONS 6
#define IMAGE_SCALAR 0xffffu
#define IMAGE_BUFFERS 16
#define IMAGE_MESSAGE_BYTES 236

struct image_header {
    uint32_t magic;
    uint32_t version;
    uint32_t image_bytes;
    uint32_t report_offset;
    uint32_t cases_offset;
    uint32_t case_count;
    uint32_t alignment_bytes; /* of vectors, of the heap and of VTCM */
    uint32_t heap_bytes;
    uint32_t vtcm_bytes;
    uint32_t practice_calls; /* how many of the first cases come before the one that is timed */
};

/* All that one call works on lies in a part of the image of its own, in whole pages. */
struct image_case {
    uint32_t part_offset;
    uint32_t part_bytes;
    uint32_t buffers_offset;
    uint32_t buffer_count;
    uint32_t poison;     /* 0 or 1: which pattern uninitialised memory and registers hold */
    uint32_t may_refuse; /* an error is an answer: the caller's shape is smaller than a tile */
    uint32_t window_bytes; /* distance of the views of the part, one a buffer; 0: one for all */
};

/* An argument: a buffer, or with IMAGE_SCALAR as its dimensions a value, which then stands for
 * the offset as the caller passes it in a register. */
struct image_buffer {
    uint32_t data_offset; /* from the start of the case's part */
    uint8_t type_code; /* halide_type_t: 0 signed, 1 unsigned */
    uint8_t type_bits;
    uint16_t dimensions;
    int32_t min[IMAGE_DIMENSIONS]; /* coordinates of the first element; 0 is the innermost */
    int32_t extent[IMAGE_DIMENSIONS];
    int32_t stride[IMAGE_DIMENSIONS]; /* in elements */
};

/* What the harness says. The candidate can write here as well: good for messages only. */
struct image_report {
    uint32_t finished_cases;
    int32_t result;             /* what the last call returned; not 0 ends the run */
    uint32_t vtcm_refused_bytes; /* size of a request for VTCM that did not fit */
    uint32_t heap_refused_bytes; /* size of an allocation that did not fit */
    char message[IMAGE_MESSAGE_BYTES]; /* first error the candidate reported; ends with 0 */
    uint32_t refused_cases; /* bits: which of those that may be refused were; final at the end */
};

#endif
