/* The in-order pipeline: how long a packet waits for what earlier packets make.
 *
 * What earlier packets leave behind is a state: the results still under way and their age. A
 * block of packets entered in one state always costs the same and leaves the same state, so
 * each pair is worked out once. That makes waits across blocks, and so the steady state of
 * loops, exact at the price of a table look-up.
 */
#ifndef HVXTUNE_PIPELINE_H
#define HVXTUNE_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "packet.h"

#define PIPELINE_PENDING 96

/* A result under way: `age` is the distance, in packet times, to the next packet. */
struct pending {
    uint8_t reg, stage, age;
};

struct pipeline_state {
    uint32_t count;
    struct pending pending[PIPELINE_PENDING];
};

/* Earliest stage at which any rule reads vector and scalar registers: results older than that
 * can no longer make anyone wait. */
struct pipeline_limits {
    uint8_t earliest_vector_read, earliest_scalar_read;
};

struct packet_wait {
    uint8_t stalls, cause;
};

void pipeline_limits(struct pipeline_limits *limits, const struct class_table *table);

/* Issues `count` packets from `from`. Writes the waits of each and the state left; returns their
 * sum. States are canonical: equal ones have equal bytes up to `count` entries. */
uint32_t pipeline_run(const struct pipeline_limits *limits, const struct pipeline_state *from,
                      const struct packet *packets, uint32_t count, struct packet_wait *waits,
                      struct pipeline_state *left);

#endif
