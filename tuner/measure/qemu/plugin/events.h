/* What the timing model counts. Cycles follow from these counts and the target's parameters
 * (tuner/measure/qemu/cycles.py); tuner/measure/qemu/events.py names them in the same order.
 */
#ifndef HVXTUNE_EVENTS_H
#define HVXTUNE_EVENTS_H

#include <stdint.h>

/* Waits for memory are grouped: those that begin at most so many packet times after the first of
 * their group overlap with it. Several such distances are counted side by side, so that the
 * right one can be chosen afterwards. */
#define EVENT_WINDOWS 6
/* A line may have been asked for ahead of its first use: by at least so many packet times. */
#define EVENT_LEADS 12

enum event {
    EVENT_PACKETS,
    EVENT_STALLS,         /* packet times lost to results that were not ready */
    EVENT_VECTOR_PACKETS, /* packets that need an HVX context */
    EVENT_MISPREDICTS,
    EVENT_LOOP_ENDS,      /* packets that close a hardware loop */
    EVENT_SCALAR_ACCESSES,
    EVENT_L1_MISSES,      /* scalar loads that L1 did not have */
    EVENT_L2_ACCESSES,    /* lines of L2 that vector loads and stores touched */
    EVENT_L2_MISSES,      /* lines that were not in L2 when a load needed them */
    EVENT_LINE_SPLITS,    /* vector accesses that touched two lines */
    EVENT_STORE_TO_LOAD,  /* packet times waited for stores of the same line to reach L2 */
    EVENT_VTCM_ACCESSES,
    EVENT_GATHERS,
    EVENT_SCATTERS,
    EVENT_DDR_READ_BYTES,
    EVENT_DDR_WRITTEN_BYTES,
    EVENT_PREFETCHED_LINES,
    EVENT_TASKS,          /* of parallel loops */
    EVENT_PARALLEL_LOOPS,
    EVENT_WAITS,          /* for memory: [EVENT_WINDOWS][EVENT_LEADS] groups */
    EVENT_COUNT = EVENT_WAITS + EVENT_WINDOWS * EVENT_LEADS,
};

struct events {
    uint64_t count[EVENT_COUNT];
};

#endif
