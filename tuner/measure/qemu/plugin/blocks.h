/* The blocks met so far, and what each costs in each state of the pipeline. */
#ifndef HVXTUNE_BLOCKS_H
#define HVXTUNE_BLOCKS_H

#include <stdbool.h>

#include "session.h"

/* A block with what its cost is worked out from. */
struct known_block {
    uint32_t index; /* in the session's table */
    uint32_t address, packets;
    uint32_t vector_packets;
    struct branch *branch; /* the conditional jump it ends in; NULL if it ends otherwise */
    bool has_rare; /* any of these: */
    uint8_t loop_ends;
    uint16_t gathers, scatters;
    const struct packet *parsed;
    struct known_transition *latest; /* list of those that begin with this block */
};

struct known_transition {
    struct transition *record;
    uint32_t from_state, next_state, cycles;
    struct known_transition *other;
};

void blocks_open(struct session *session);

/* The block of `count` packets at `address`; NULL if it was not met before. */
struct known_block *blocks_find(uint32_t address, uint32_t count);

/* Adds a block whose packets are given as disassembly. Ends the run if the tables are full. */
struct known_block *blocks_add(uint32_t address, uint32_t count, const uint32_t *addresses,
                               char *const *texts);

/* What `block` costs when entered in `state` (0: nothing under way). */
struct known_transition *blocks_enter(struct known_block *block, uint32_t state);

/* Ends the run at once, leaving `state` in the results. */
__attribute__((noreturn)) void end_run(enum session_state state);

#endif
