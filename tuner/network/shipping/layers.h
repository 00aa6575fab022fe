/* The parts of a network that are not kernels: conversions between layouts of its tensors. */
#ifndef HVXTUNE_LAYERS_H
#define HVXTUNE_LAYERS_H

#include <stdint.h>

enum { HVXTUNE_LOOPS = 6 };

/* Bytes from one layout to another, each with the bits in `flip` changed, in `loops` loops of
 * `extent` over both strides, the innermost last. What lies between them stays as it is. */
static inline void hvxtune_copy(const uint8_t *from, uint8_t *to, uint8_t flip, int loops,
                                const int32_t *extent, const int32_t *from_stride,
                                const int32_t *to_stride) {
    int32_t at[HVXTUNE_LOOPS] = {0};
    const int inner = loops - 1;
    const int32_t count = extent[inner], step = from_stride[inner], to_step = to_stride[inner];
    for (int d = 0; d >= 0;) {
        for (int32_t i = 0; i < count; i++)
            to[i * to_step] = from[i * step] ^ flip;
        for (d = inner - 1; d >= 0; d--) { /* to the next row, as an odometer */
            from += from_stride[d];
            to += to_stride[d];
            if (++at[d] < extent[d])
                break;
            from -= extent[d] * from_stride[d];
            to -= extent[d] * to_stride[d];
            at[d] = 0;
        }
    }
}

#endif
