/* The buffers that hand-made candidates of the suites get, as Halide lays them out
 * (halide_buffer_t of HalideRuntime.h). */
#pragma once
#include <stdint.h>

struct dimension {
    int32_t min, extent, stride;
    uint32_t flags;
};

struct buffer {
    uint64_t device;
    const void *device_interface;
    uint8_t *host;
    uint64_t flags;
    uint32_t type;
    int32_t dimensions;
    struct dimension *dim;
    void *padding;
};
