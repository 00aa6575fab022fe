/* The kernel scale_u8 (tests/rig), out = in + 1: LEAVES its output behind in scratch memory, or
 * TAKES what lies there for its own work. */
#include "halide_buffer.h"

void *halide_malloc(void *, unsigned);
void halide_free(void *, void *);
void *HAP_request_VTCM(unsigned, unsigned);
int HAP_release_VTCM(void *);

int ENTRY(struct buffer *in, struct buffer *out) {
    int bytes = in->dim[0].extent * in->dim[1].extent; /* rows are dense: contract static */
    uint8_t *heap = halide_malloc(0, (unsigned)bytes), *vtcm = HAP_request_VTCM((unsigned)bytes, 1);
    for (int i = 0; i < bytes; i++) {
#ifdef LEAVES
        out->host[i] = heap[i] = vtcm[i] = (uint8_t)(in->host[i] + 1);
#else
        out->host[i] = TAKES[i];
#endif
    }
    halide_free(0, heap);
    HAP_release_VTCM(vtcm);
    return 0;
}
