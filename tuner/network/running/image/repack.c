/* Copies elements of a byte each from one layout to another: both buffers have the same extents.
 * What lies between elements of the output stays as it is. */
#include "../../../measure/harness/halide_buffer.h"
#include "copy.h"
#include "hvxtune_network.h"

int hvxtune_repack(const struct halide_buffer *in, const struct halide_buffer *out) {
    int32_t extent[HVXTUNE_DIMENSIONS], from[HVXTUNE_DIMENSIONS], to[HVXTUNE_DIMENSIONS];
    int loops = HVXTUNE_DIMENSIONS;
    if (in->dimensions != HVXTUNE_DIMENSIONS || out->dimensions != HVXTUNE_DIMENSIONS)
        return -1;
    for (int d = 0; d < HVXTUNE_DIMENSIONS; d++) {
        const int loop = HVXTUNE_DIMENSIONS - 1 - d;
        extent[loop] = in->dim[d].extent;
        from[loop] = in->dim[d].stride;
        to[loop] = out->dim[d].stride;
        if (out->dim[d].extent != extent[loop])
            return -1;
    }
    const int32_t *e = extent, *f = from, *t = to;
    for (; loops > 1 && *e == 1; loops--) /* those that only fill up */
        e++, f++, t++;
    hvxtune_copy(in->host, out->host, 0, loops, e, f, t);
    return 0;
}
