/* Waits for memory, grouped by what overlaps. */
#ifndef HVXTUNE_WAITS_H
#define HVXTUNE_WAITS_H

#include <stdint.h>

#include "session.h"

void waits_open(const struct memory_system *system);

/* Forgets the groups under way. */
void waits_begin(void);

/* A load at `time` (issue and dependency stalls) needs what was asked for `lead` packet times ago,
 * all waits included (0: only now). */
void wait_for_memory(uint64_t time, uint64_t lead);

#endif
