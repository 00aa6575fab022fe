/* The timed call and the practice call before it: blocks as they are entered, the clock, and the
 * early end of slow candidates.
 */
#ifndef HVXTUNE_TIMING_H
#define HVXTUNE_TIMING_H

#include <stdbool.h>

#include "blocks.h"

/* Returns false if there is no memory for its tables. */
bool timing_open(struct session *session);

/* Whether call number `call`, counted from 1, is followed packet by packet. */
bool timing_follows(uint32_t call);

void timing_call_begins(void);
void timing_block_entered(struct known_block *block);

/* Mark `number` of the harness (parallel.S): a parallel loop begins (0), a task of it begins (1),
 * the loop is over (2). */
void timing_mark(uint32_t number);
#define TIMING_MARKS 3

/* When packet number `packet` of the block under way issues, in packet times since the first
 * call began (but for its own and its predecessors' stalls inside the block). */
uint64_t timing_clock(uint32_t packet);

#endif
