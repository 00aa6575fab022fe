/* Copies elements of a byte each from one layout to another: both buffers have the same extents.
 * What lies between elements of the output stays as it is. */
#include "../../../measure/harness/halide_buffer.h"
#include "hvxtune_network.h"

int hvxtune_repack(const struct halide_buffer *in, const struct halide_buffer *out) {
    int32_t extent[HVXTUNE_DIMENSIONS], from[HVXTUNE_DIMENSIONS], to[HVXTUNE_DIMENSIONS];
    if (in->dimensions != HVXTUNE_DIMENSIONS || out->dimensions != HVXTUNE_DIMENSIONS)
        return -1;
    for (int d = 0; d < HVXTUNE_DIMENSIONS; d++) {
        extent[d] = in->dim[d].extent;
        from[d] = in->dim[d].stride;
        to[d] = out->dim[d].stride;
        if (out->dim[d].extent != extent[d])
            return -1;
    }
    int32_t at[HVXTUNE_DIMENSIONS] = {0};
    const uint8_t *source = in->host;
    uint8_t *target = out->host;
    for (int d = 0; d < HVXTUNE_DIMENSIONS;) {
        for (int32_t i = 0; i < extent[0]; i++)
            target[i * to[0]] = source[i * from[0]];
        for (d = 1; d < HVXTUNE_DIMENSIONS; d++) { /* to the next row, as an odometer */
            source += from[d];
            target += to[d];
            if (++at[d] < extent[d])
                break;
            source -= extent[d] * from[d];
            target -= extent[d] * to[d];
            at[d] = 0;
        }
    }
    return 0;
}
