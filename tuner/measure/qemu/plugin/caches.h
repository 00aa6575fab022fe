/* The memory hierarchy: L1D for scalar accesses, L2 for vectors and for what L1 misses, VTCM and
 * DDR behind them. Accesses come in the order of the program; each may be charged with events.
 *
 * The HVX unit is attached to L2: vector accesses pass L1 by, and vector stores invalidate what L1
 * holds of their lines (V66 HVX PRM, "Maximizing performance of the vector memory system").
 */
#ifndef HVXTUNE_CACHES_H
#define HVXTUNE_CACHES_H

#include <stdbool.h>

#include "session.h"

/* Whose access it is and when it comes: packet times of issue and dependency stalls since the first
 * call began. */
struct moment {
    uint64_t time;
    struct packet_record *packet;
};

/* Returns false if there is no memory for the tables. `vtcm_used` is kept up to date. */
bool caches_open(const struct memory_system *system, uint32_t vtcm_begin, uint32_t *vtcm_used);
void caches_empty(void);

void scalar_load(struct moment at, uint32_t address);
void scalar_store(struct moment at, uint32_t address);
/* Of a whole vector; `unaligned` accesses begin at any address. */
void vector_load(struct moment at, uint32_t address, bool unaligned);
void vector_store(struct moment at, uint32_t address, bool unaligned);
/* The vector that a gather leaves at `address`. */
void gathered(struct moment at, uint32_t address);

void prefetch_line(struct moment at, uint32_t address);
void prefetch_box(struct moment at, uint32_t address, uint32_t width, uint32_t height,
                  uint32_t stride);

#endif
