/* Where events are counted, and what they cost so far: the stretch of the timed call under way. */
#ifndef HVXTUNE_ACCOUNT_H
#define HVXTUNE_ACCOUNT_H

#include "session.h"

struct account {
    struct events *events;
    const struct costs *costs;
    uint64_t extra;     /* cost of all events but packets and stalls, in 1/256 packet times */
    uint64_t waits;     /* the part of it that waits for DDR: transfers go on meanwhile */
    uint64_t ddr_bytes; /* read and written */
};

extern struct account account;

static inline void charge(enum event event, uint64_t count) {
    account.events->count[event] += count;
    account.extra += count * account.costs->of_event[event];
}

static inline void charge_transfer(enum event direction, uint64_t bytes) {
    account.events->count[direction] += bytes;
    account.ddr_bytes += bytes;
}

#endif
