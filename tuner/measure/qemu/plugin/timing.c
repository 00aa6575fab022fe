#include "timing.h"

#include <string.h>

#include "account.h"
#include "caches.h"
#include "waits.h"

struct account account;

static struct session *session;
static uint32_t pipeline; /* state of it */
static uint64_t limit;    /* most cycles of the call under way, in 1/256 packet times */
static uint64_t began;    /* time at which the call under way began; never 0 */
static uint64_t block_began;
static const struct known_block *latest;

/* Parallel loops. Only the outermost one has tasks; loops inside of tasks are serial code. */
static uint32_t depth, loops, first_task, tasks;
static uint64_t loop_began; /* work done before it */
static uint64_t shared_out; /* of the work in loops: what other contexts do at the same time */

static const struct costs free_of_charge = {.contexts = 1};

bool timing_open(struct session *opened) {
    session = opened;
    began = 1;
    waits_open(&session->orders.memory_system);
    return caches_open(&session->orders.memory_system, session->orders.vtcm_begin,
                       &session->results.vtcm_used_bytes);
}

/* Of all calls, one after the other in a process that keeps its caches. */
static bool serves(void) { return (session->orders.flags & SESSION_SERVES) != 0; }

bool timing_follows(uint32_t call) { return serves() || call <= session->orders.timed_call; }

uint64_t timing_clock(uint32_t packet) { return block_began + packet; }

static void count_in(uint32_t segment) {
    account.events = &session->segments[segment].events;
}

/* Begins a stretch of its own. With the table full, one of the loop's tasks takes it on. */
static void begin_segment(uint32_t loop) {
    struct results *results = &session->results;
    if (results->segment_count < SESSION_SEGMENTS) {
        session->segments[results->segment_count].loop = loop;
        session->segments[results->segment_count].call = results->calls;
        count_in(results->segment_count++);
    } else if (loop != 0 && first_task < SESSION_SEGMENTS) {
        count_in(first_task + tasks % (SESSION_SEGMENTS - first_task));
    } else if (serves()) {
        end_run(SESSION_TABLE_FULL);
    }
}

static void forget_counts(void) {
    struct results *results = &session->results;
    for (uint32_t i = 0; i < results->transition_count; i++)
        session->transitions[i].count = 0;
    for (uint32_t i = 0; i < results->branch_count; i++)
        session->branches[i].went_to[0] = session->branches[i].went_to[1] = 0;
    for (uint32_t i = 0; i < results->packet_count; i++) {
        struct packet_record *packet = &session->packets[i];
        packet->l1_misses = packet->l2_misses = packet->line_splits = packet->store_to_load = 0;
    }
    memset(session->segments, 0, results->segment_count * sizeof *session->segments);
    results->packets = results->cycles = results->segment_count = 0;
}

void timing_call_begins(void) {
    const struct orders *orders = &session->orders;
    bool practice = session->results.calls < orders->timed_call && !serves();
    began += session->results.cycles;
    if (serves()) { /* time goes on by all it took, for what one call fetches for the next */
        began += account.extra >> 8;
        session->results.packets = session->results.cycles = 0;
    } else {
        forget_counts();
    }
    /* With caches not yet filled, memory costs more than in the timed call: what counts against
     * the limit is what both calls have in common. */
    account = (struct account){.costs = practice ? &free_of_charge : &orders->costs};
    pipeline = depth = loops = 0;
    shared_out = 0;
    latest = NULL;
    begin_segment(0);
    waits_begin();
    if (!practice && (orders->flags & SESSION_COLD_CACHES))
        caches_empty();
    limit = orders->timed_cycles ? orders->timed_cycles << 8 : UINT64_MAX;
}

/* Of the two ways a conditional jump goes, the rarer one is mispredicted. */
static void count_branch(struct branch *branch, uint32_t went_to) {
    if (branch->went_to[0] == 0)
        branch->first_target = went_to;
    int other = went_to != branch->first_target;
    if (++branch->went_to[other] <= branch->went_to[!other])
        charge(EVENT_MISPREDICTS, 1);
}

static uint64_t work(void) { return (session->results.cycles << 8) + account.extra; }

/* What other contexts take off this one while tasks do `work`, at most. */
static uint64_t share(uint64_t work) {
    uint64_t contexts = session->orders.costs.contexts;
    return work - work / contexts;
}

/* A lower bound of what the call costs so far, in 1/256 packet times (cycles.py). */
static uint64_t spent(void) {
    uint64_t transfers = account.ddr_bytes * account.costs->of_ddr_byte >> 8;
    uint64_t alone = work() - shared_out - (depth > 0 ? share(work() - loop_began) : 0);
    if (loops > 0)
        return alone > transfers ? alone : transfers;
    uint64_t core = (session->results.cycles << 8) + account.waits;
    return (core > transfers ? core : transfers) + account.extra - account.waits;
}

void timing_block_entered(struct known_block *block) {
    struct results *results = &session->results;
    if (latest != NULL && latest->branch != NULL)
        count_branch(latest->branch, block->address);
    latest = block;
    struct known_transition *transition = blocks_enter(block, pipeline);
    transition->record->count++;
    pipeline = transition->next_state;
    block_began = began + results->cycles;
    results->packets += block->packets;
    results->cycles += transition->cycles;
    uint64_t *counts = account.events->count;
    counts[EVENT_PACKETS] += block->packets;
    counts[EVENT_STALLS] += transition->cycles - block->packets;
    counts[EVENT_VECTOR_PACKETS] += block->vector_packets;
    if (block->has_rare) {
        charge(EVENT_LOOP_ENDS, block->loop_ends);
        charge(EVENT_GATHERS, block->gathers);
        charge(EVENT_SCATTERS, block->scatters);
    }
    uint64_t cost = spent();
    if (cost > limit) {
        results->spent = (cost + 255) >> 8;
        end_run(SESSION_CUT_OFF);
    }
}

static void loop_begins(void) {
    if (depth++ > 0)
        return;
    loops++;
    charge(EVENT_PARALLEL_LOOPS, 1);
    loop_began = work();
    first_task = session->results.segment_count;
    tasks = 0;
}

static void task_begins(void) {
    if (depth != 1)
        return;
    begin_segment(loops);
    tasks++;
    charge(EVENT_TASKS, 1);
}

static void loop_ends(void) {
    if (depth == 0) /* a jump into the harness */
        end_run(SESSION_STRAY);
    if (--depth > 0)
        return;
    shared_out += share(work() - loop_began);
    begin_segment(0);
}

void timing_mark(uint32_t number) {
    static void (*const marks[])(void) = {loop_begins, task_begins, loop_ends};
    marks[number]();
}
