/* The memory the launcher and the plugin share: orders at the start, results behind them.
 *
 * Results are written as they come, so they are there however the simulated program ends. The
 * simulated program cannot reach this memory: it lies outside its 32-bit space, and the plugin
 * closes the descriptor before the program starts. tuner/measure/qemu/session.py mirrors this.
 */
#ifndef HVXTUNE_SESSION_H
#define HVXTUNE_SESSION_H

#include <stdint.h>

#include "events.h"
#include "packet.h"

#define SESSION_MAGIC 0x53565848u /* "HXVS" */
#define SESSION_VERSION 7u
#define SESSION_RULES 512
#define SESSION_BLOCKS 32768
#define SESSION_TRANSITIONS 131072
#define SESSION_PACKETS 262144
#define SESSION_DETAILS (1u << 20)
#define SESSION_SEGMENTS 16384
#define SESSION_TEXT_BYTES (1u << 24)
#define SESSION_WATCHED_CALLS 32
#define SESSION_REGIONS 512
#define SESSION_REGIONS_OF_CALL 16
#define SESSION_DIMENSIONS 6

enum session_state {
    SESSION_PREPARED,      /* the plugin was never loaded */
    SESSION_LOADED,        /* loaded; still running, or ended by a signal */
    SESSION_FINISHED,      /* the program ended by itself, outside the candidate */
    SESSION_CUT_OFF,       /* the timed call exceeded its cycles */
    SESSION_RUNAWAY,       /* an untimed call exceeded its packets */
    SESSION_SYSTEM_CALL,   /* a system call that is not the harness's */
    SESSION_STRAY,         /* candidate code ran outside a call, or a call began inside one */
    SESSION_TABLE_FULL,    /* more code than the tables hold */
    SESSION_UNREADABLE,    /* a packet the class table cannot describe */
    SESSION_NOT_CODE,      /* a jump to where no code was loaded */
    SESSION_HIDDEN,        /* a prefetch, while this QEMU does not show its registers */
    SESSION_UNSTEADY,      /* the timed call did other work than the practice call */
    SESSION_READ_OUTSIDE,  /* of its buffers' memory, in a watched call */
    SESSION_WROTE_OUTSIDE, /* of its outputs, there */
    SESSION_MISALIGNED,    /* a scalar access, on which hardware faults */
};

enum session_flags {
    SESSION_KEEP_TEXT = 1,
    SESSION_MODEL_MEMORY = 2, /* caches, VTCM, DDR; else every access costs nothing */
    SESSION_COLD_CACHES = 4,  /* empty when the timed call begins */
    SESSION_SERVES = 8, /* an image of a network: takes messages, and every call is timed */
};

/* Sizes and distances that decide which events happen; distances in packet times. */
struct memory_system {
    uint32_t l1_line_bytes, l1_sets, l1_ways;
    uint32_t l2_line_bytes, l2_sets, l2_ways;
    uint32_t vector_bytes;
    uint32_t vtcm_bytes;
    uint32_t store_to_load;  /* between a vector store and a load of the same line */
    uint32_t gather_to_load; /* between a gather and a load of what it gathered */
    uint32_t l1_fetch;       /* until a line that dcfetch asked for is in L1 */
    uint32_t line_transfer;  /* between two lines that come from DDR one after the other */
    uint32_t windows[EVENT_WINDOWS];
    uint32_t leads[EVENT_LEADS]; /* the last one: certainly arrived */
};

/* What events cost at least, for the early end of slow candidates. */
struct costs {
    uint64_t of_event[EVENT_COUNT]; /* 1/256 packet times */
    uint64_t of_ddr_byte;           /* 1/65536 packet times */
    uint32_t contexts;
    uint32_t unused;
};

struct orders {
    uint32_t magic, version;
    uint32_t flags;
    uint32_t launcher; /* process that must stay alive */
    uint32_t window_begin, window_end; /* addresses of the harness's call and its return */
    uint32_t candidate_begin, candidate_end; /* code between them is the candidate's */
    uint32_t cpu_seconds;
    uint64_t address_space_bytes;
    uint64_t output_bytes;
    uint64_t timed_cycles;   /* most cycles of the timed call; 0 for no limit */
    uint64_t untimed_factor; /* most packets of a later call, as multiple of that one's ... */
    uint64_t untimed_slack;  /* ... plus these */
    struct costs costs;
    struct memory_system memory_system;
    uint32_t timed_call;     /* 1, or 2 after a practice call that fills the caches */
    uint32_t marks_begin;    /* the harness's marks of parallel loops (call.S) */
    uint32_t vtcm_begin;
    uint32_t stack_begin, stack_bytes; /* the candidate's */
    uint32_t unused;
    struct memory_stages memory;
    uint16_t rule_count;
    struct rule rules[SESSION_RULES];
};

/* A buffer: runs of `run_bytes` elements without padding, at `stride` bytes, outermost first. */
struct region {
    uint32_t begin, run_bytes, is_output, dimensions;
    uint32_t extent[SESSION_DIMENSIONS], stride[SESSION_DIMENSIONS];
};

struct watched_call {
    uint32_t first_region, region_count, case_bytes; /* addresses of its views */
};

/* The buffers of the first `calls` calls, in which every access is checked. */
struct bounds {
    uint32_t case_begin, calls;
    struct watched_call call[SESSION_WATCHED_CALLS];
    struct region regions[SESSION_REGIONS];
};

struct results {
    uint32_t state; /* enum session_state */
    uint32_t address; /* start of the block that was last entered */
    int64_t system_call; /* number of the refused system call */
    uint32_t calls; /* calls begun */
    uint32_t block_count, transition_count, packet_count;
    uint32_t detail_count, text_bytes, segment_count, branch_count;
    uint32_t sandbox_layers; /* enum sandbox_layer */
    uint32_t vtcm_used_bytes; /* up to the last vector touched */
    uint32_t touched, touched_bytes; /* by the access that ended the run; `address` is its packet */
    uint64_t packets, cycles; /* of the timed call: issue and dependency stalls */
    uint64_t spent;           /* of the timed call, when it was cut off: cycles of all causes */
    uint64_t untimed_packets; /* of the latest untimed call */
};

/* A straight run of packets, as QEMU translated it. `branch` is that of the conditional jump it
 * ends in. */
struct block {
    uint32_t address, packets, first_packet, branch;
};

#define SESSION_NO_BRANCH UINT32_MAX

/* A packet with a conditional jump: how often it went on at `first_target`, and elsewhere. */
struct branch {
    uint32_t address, first_target;
    uint64_t went_to[2];
};

/* A block entered in a given state of the pipeline. `details` leads to one detail a packet. */
struct transition {
    uint32_t block, stalls, details, next_state;
    uint64_t count;
};

struct packet_record {
    uint32_t address, text;
    uint32_t traits; /* enum trait of packet.h */
    uint32_t unused;
    uint64_t l1_misses, l2_misses, line_splits, store_to_load;
};

/* A stretch of a timed call: serial code (loop 0), or a task of the parallel loop `loop`. */
struct segment {
    uint32_t loop, call;
    struct events events;
};

struct detail {
    uint8_t stalls, cause;
};

struct session {
    struct orders orders;
    struct bounds bounds;
    struct results results;
    struct block blocks[SESSION_BLOCKS];
    struct branch branches[SESSION_BLOCKS]; /* blocks end in one at most */
    struct transition transitions[SESSION_TRANSITIONS];
    struct packet_record packets[SESSION_PACKETS];
    struct detail details[SESSION_DETAILS];
    struct segment segments[SESSION_SEGMENTS];
    char text[SESSION_TEXT_BYTES];
};

#endif
