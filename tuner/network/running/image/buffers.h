/* The DSP's buffers by handle: the first gap that is large enough, in one arena. */
#ifndef HVXTUNE_BUFFERS_H
#define HVXTUNE_BUFFERS_H

#include "hvxtune_network.h"

/* Owns `bytes` from `base` on, a multiple of `alignment`, a power of two. */
void buffers_open(uint8_t *base, uint32_t bytes, uint32_t alignment);

/* The name of a new buffer is the host's: in `handle`, the slot below and a count above. */
enum hvxtune_status buffers_allocate(hvxtune_buffer handle, uint32_t bytes);
enum hvxtune_status buffers_free(hvxtune_buffer handle);

/* `bytes` from `offset` on of a buffer in `*found`. */
enum hvxtune_status buffers_find(hvxtune_buffer handle, uint32_t offset, uint64_t bytes,
                                 uint8_t **found);

#endif
