#include "bounds.h"

#include <stddef.h>

#include "blocks.h"

/* A run of elements without padding, and the aligned vectors that hold any of it. */
struct run {
    uint32_t begin, end;
    uint32_t first_vector, last_vector; /* addresses; the end of the last one */
};

static struct session *session;
static uint32_t vector_bytes;
static const struct region *regions;
static uint32_t region_count, case_bytes;
static struct run latest[SESSION_REGIONS_OF_CALL]; /* that an access to each region fell into */

void bounds_open(struct session *opened) {
    session = opened;
    vector_bytes = opened->orders.memory_system.vector_bytes;
}

void bounds_call_begins(uint32_t call) {
    const struct bounds *bounds = &session->bounds;
    region_count = case_bytes = 0;
    if (call > bounds->calls)
        return;
    const struct watched_call *watched = &bounds->call[call - 1];
    regions = &bounds->regions[watched->first_region];
    region_count = watched->region_count;
    case_bytes = watched->case_bytes;
    for (uint32_t i = 0; i < region_count; i++)
        latest[i] = (struct run){0, 0, 0, 0};
}

static __attribute__((noreturn)) void refuse(enum session_state state,
                                             const struct packet_record *by, uint32_t address,
                                             uint32_t bytes) {
    session->results.address = by->address;
    session->results.touched = address;
    session->results.touched_bytes = bytes;
    end_run(state);
}

/* The last run of `region` that begins at or before `address`, which is not before the first. */
static struct run run_before(const struct region *region, uint32_t address) {
    uint32_t left = address - region->begin, begin = region->begin;
    for (uint32_t d = 0; d < region->dimensions; d++) {
        uint32_t index = left / region->stride[d];
        if (index >= region->extent[d])
            index = region->extent[d] - 1;
        begin += index * region->stride[d];
        left -= index * region->stride[d];
    }
    uint32_t end = begin + region->run_bytes;
    return (struct run){begin, end, begin & -vector_bytes, (end + vector_bytes - 1) & -vector_bytes};
}

/* Whether the aligned vectors from `first` to the one at `last` hold a byte of a buffer. */
static bool hold_a_byte(uint32_t first, uint32_t last) {
    for (uint32_t i = 0; i < region_count; i++)
        if (last >= latest[i].first_vector && first < latest[i].last_vector)
            return true;
    uint32_t last_byte = last + vector_bytes - 1;
    for (uint32_t i = 0; i < region_count; i++) {
        if (last_byte < regions[i].begin)
            continue;
        struct run run = run_before(&regions[i], last_byte);
        if (run.end > first) {
            latest[i] = run;
            return true;
        }
    }
    return false;
}

static bool is_of_an_output(uint32_t address, uint32_t bytes) {
    for (uint32_t i = 0; i < region_count; i++)
        if (regions[i].is_output && address >= latest[i].begin && address + bytes <= latest[i].end)
            return true;
    for (uint32_t i = 0; i < region_count; i++) {
        if (!regions[i].is_output || address < regions[i].begin)
            continue;
        struct run run = run_before(&regions[i], address);
        if (address + bytes <= run.end) {
            latest[i] = run;
            return true;
        }
    }
    return false;
}

static bool is_of_the_case(uint32_t address) {
    return address - session->bounds.case_begin < case_bytes;
}

void bounds_vector_loaded(const struct packet_record *by, uint32_t address) {
    if (!is_of_the_case(address))
        return;
    uint32_t first = address & -vector_bytes;
    uint32_t last = (address + vector_bytes - 1) & -vector_bytes;
    uint32_t reach = BOUNDS_REACH * vector_bytes;
    if (!hold_a_byte(first - reach, last + reach))
        refuse(SESSION_READ_OUTSIDE, by, address, vector_bytes);
}

void bounds_stored(const struct packet_record *by, uint32_t address, uint32_t bytes) {
    if (is_of_the_case(address) && !is_of_an_output(address, bytes))
        refuse(SESSION_WROTE_OUTSIDE, by, address, bytes);
}

void bounds_scalar(const struct packet_record *by, uint32_t address, uint32_t bytes, bool store) {
    if ((address & (bytes - 1)) != 0)
        refuse(SESSION_MISALIGNED, by, address, bytes);
    uint32_t vector = address & -vector_bytes;
    if (!store && is_of_the_case(address) && !hold_a_byte(vector, vector))
        refuse(SESSION_READ_OUTSIDE, by, address, bytes);
}
