#include "pipeline.h"

#include <limits.h>
#include <string.h>

struct result {
    int32_t issued; /* time of the packet that makes it */
    uint8_t stage;
};

#define LONG_AGO (INT32_MIN / 2)

/* Packet times between a packet that makes a result at stage `written` and one that needs it at
 * stage `read`: two stages a packet time, one of them saved by forwarding, at least one packet. */
static int32_t distance(uint8_t written, uint8_t read) {
    int32_t packets = (written - read + 1) >> 1;
    return packets < 1 ? 1 : packets;
}

static void lower(uint8_t *least, uint8_t stage) {
    if (stage < *least)
        *least = stage;
}

void pipeline_limits(struct pipeline_limits *limits, const struct class_table *table) {
    const struct memory_stages *m = &table->memory;
    struct pipeline_limits found = {m->vector_data, m->base};
    lower(&found.earliest_vector_read, m->unaligned_vector_data);
    lower(&found.earliest_scalar_read, m->modifier);
    lower(&found.earliest_scalar_read, m->scalar_data);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct rule *rule = &table->rules[i];
        uint8_t *least = rule->unit == UNIT_VECTOR ? &found.earliest_vector_read
                                                   : &found.earliest_scalar_read;
        lower(least, rule->reads);
        lower(least, rule->accumulates);
        lower(least, rule->predicates);
        lower(&found.earliest_scalar_read, rule->scalars);
    }
    *limits = found;
}

static uint32_t issue(const struct packet *packet, const struct result *results, int32_t earliest,
                      uint8_t *cause) {
    int32_t time = earliest;
    for (int i = 0; i < packet->reads; i++) {
        const struct operand *source = &packet->read[i];
        const struct result *result = &results[source->reg];
        if (result->issued == LONG_AGO)
            continue;
        int32_t ready = result->issued + distance(result->stage, source->stage);
        if (ready > time) {
            time = ready;
            *cause = source->cause;
        }
    }
    return (uint32_t)(time - earliest);
}

uint32_t pipeline_run(const struct pipeline_limits *limits, const struct pipeline_state *from,
                      const struct packet *packets, uint32_t count, struct packet_wait *waits,
                      struct pipeline_state *left) {
    struct result results[REGISTER_COUNT];
    for (int reg = 0; reg < REGISTER_COUNT; reg++)
        results[reg] = (struct result){LONG_AGO, 0};
    for (uint32_t i = 0; i < from->count; i++) {
        const struct pending *pending = &from->pending[i];
        results[pending->reg] = (struct result){-pending->age, pending->stage};
    }
    int32_t next = 0;
    uint32_t stalls = 0;
    for (uint32_t p = 0; p < count; p++) {
        struct packet_wait wait = {0, 0};
        uint32_t waited = issue(&packets[p], results, next, &wait.cause);
        wait.stalls = (uint8_t)(waited > UINT8_MAX ? UINT8_MAX : waited);
        waits[p] = wait;
        stalls += waited;
        int32_t time = next + (int32_t)waited;
        for (int i = 0; i < packets[p].writes; i++) {
            const struct operand *target = &packets[p].write[i];
            results[target->reg] = (struct result){time, target->stage};
        }
        next = time + 1;
    }
    left->count = 0;
    for (int reg = 0; reg < REGISTER_COUNT && left->count < PIPELINE_PENDING; reg++) {
        uint8_t earliest_read =
            reg >= REGISTER_V ? limits->earliest_vector_read : limits->earliest_scalar_read;
        int32_t age = next - results[reg].issued;
        if (results[reg].issued != LONG_AGO && distance(results[reg].stage, earliest_read) > age)
            left->pending[left->count++] =
                (struct pending){(uint8_t)reg, results[reg].stage, (uint8_t)age};
    }
    return stalls;
}
