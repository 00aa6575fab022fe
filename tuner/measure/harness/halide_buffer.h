#ifndef HVXTUNE_HALIDE_BUFFER_H
#define HVXTUNE_HALIDE_BUFFER_H

#include <stdint.h>

struct halide_dimension {
    int32_t min, extent, stride;
    uint32_t flags;
};

/* halide_buffer_t of Halide 21 (HalideRuntime.h). */
struct halide_buffer {
    uint64_t device;
    const void *device_interface;
    uint8_t *host;
    uint64_t flags;
    uint8_t type_code, type_bits;
    uint16_t type_lanes;
    int32_t dimensions;
    struct halide_dimension *dim;
    void *padding;
};

#endif
