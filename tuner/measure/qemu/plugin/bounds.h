/* What the candidate may touch of its buffers' memory, checked at every access of watched calls.
 *
 * A scalar load may touch the aligned vectors that hold a byte of a buffer: no page ends within
 * one. A vector load may lie up to BOUNDS_REACH vectors beyond: Halide makes an unaligned vector of
 * two aligned ones, and LLVM loads whole what it masks, values of four vectors as well. A store may
 * change the elements of outputs and nothing else, not for a moment: another thread may own what
 * lies beside them. Scalar accesses must lie on a multiple of their size, or hardware faults. Other
 * memory is the candidate's own or not mapped.
 */
#ifndef HVXTUNE_BOUNDS_H
#define HVXTUNE_BOUNDS_H

#include <stdbool.h>

#include "session.h"

void bounds_open(struct session *session);

enum { BOUNDS_REACH = 4 };

/* `call` counts from 1. */
void bounds_call_begins(uint32_t call);

/* These end the run at an access that is not allowed, of the packet `by`. */
void bounds_scalar(const struct packet_record *by, uint32_t address, uint32_t bytes, bool store);
void bounds_vector_loaded(const struct packet_record *by, uint32_t address);
void bounds_stored(const struct packet_record *by, uint32_t address, uint32_t bytes);

#endif
