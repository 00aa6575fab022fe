#include "blocks.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline.h"

#define BUCKETS (2 * SESSION_BLOCKS)
#define STATES 8192

static struct session *session;
static struct class_table table;
static struct pipeline_limits limits;

static struct known_block *buckets[BUCKETS]; /* open addressing by block address */
static uint32_t branch_buckets[BUCKETS];     /* branch number plus one */
static uint32_t state_buckets[STATES * 2];   /* state number plus one */
static struct pipeline_state *states[STATES];
static uint32_t state_count;

void end_run(enum session_state state) {
    session->results.state = state;
    _exit(3);
}

static void *need(void *memory) {
    if (memory == NULL)
        end_run(SESSION_TABLE_FULL);
    return memory;
}

/* The number of a state; equal states have equal numbers. */
static uint32_t number_of(const struct pipeline_state *state) {
    size_t bytes = state->count * sizeof *state->pending;
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const uint8_t *)state->pending)[i]) * 16777619u;
    for (uint32_t slot = hash;; slot++) {
        uint32_t *number = &state_buckets[slot % (STATES * 2)];
        if (*number == 0) {
            if (state_count == STATES)
                end_run(SESSION_TABLE_FULL);
            struct pipeline_state *kept = need(malloc(sizeof *kept));
            *kept = *state;
            states[state_count++] = kept;
            *number = state_count;
        }
        const struct pipeline_state *known = states[*number - 1];
        if (known->count == state->count && memcmp(known->pending, state->pending, bytes) == 0)
            return *number - 1;
    }
}

void blocks_open(struct session *opened) {
    session = opened;
    table = (struct class_table){session->orders.rules, session->orders.rule_count,
                                 session->orders.memory};
    pipeline_limits(&limits, &table);
    struct pipeline_state empty = {0};
    number_of(&empty); /* becomes state 0 */
}

static struct known_block **bucket_of(uint32_t address, uint32_t count) {
    for (uint32_t slot = address >> 2;; slot++) {
        struct known_block **bucket = &buckets[slot % BUCKETS];
        if (*bucket == NULL || ((*bucket)->address == address && (*bucket)->packets == count))
            return bucket;
    }
}

struct known_block *blocks_find(uint32_t address, uint32_t count) {
    return *bucket_of(address, count);
}

static void keep_text(struct packet_record *record, const char *text) {
    struct results *results = &session->results;
    size_t bytes = strlen(text) + 1;
    if (results->text_bytes + bytes > SESSION_TEXT_BYTES)
        return;
    record->text = results->text_bytes;
    memcpy(session->text + record->text, text, bytes);
    results->text_bytes += bytes;
}

/* The branch at `address`. Blocks that begin at different packets may end in the same. */
static struct branch *branch_at(uint32_t address) {
    for (uint32_t slot = address >> 2;; slot++) {
        uint32_t *number = &branch_buckets[slot % BUCKETS];
        if (*number == 0) {
            struct branch *branch = &session->branches[session->results.branch_count++];
            branch->address = address;
            *number = session->results.branch_count;
        }
        struct branch *branch = &session->branches[*number - 1];
        if (branch->address == address)
            return branch;
    }
}

static void sum_up(struct known_block *block) {
    for (uint32_t i = 0; i < block->packets; i++) {
        uint16_t traits = block->parsed[i].traits;
        block->vector_packets += (traits & TRAIT_VECTOR) != 0;
        block->loop_ends += (traits & TRAIT_LOOP_END) != 0;
        block->gathers += (traits & TRAIT_GATHER) != 0;
        block->scatters += (traits & TRAIT_SCATTER) != 0;
    }
    block->has_rare = block->loop_ends || block->gathers || block->scatters;
}

struct known_block *blocks_add(uint32_t address, uint32_t count, const uint32_t *addresses,
                               char *const *texts) {
    struct results *results = &session->results;
    if (results->block_count == SESSION_BLOCKS || count > SESSION_PACKETS - results->packet_count)
        end_run(SESSION_TABLE_FULL);
    struct packet *parsed = need(calloc(count, sizeof *parsed));
    for (uint32_t i = 0; i < count; i++) {
        struct packet_record *record = &session->packets[results->packet_count + i];
        record->address = addresses[i];
        if (session->orders.flags & SESSION_KEEP_TEXT)
            keep_text(record, texts[i]);
        if (!packet_parse(&parsed[i], &table, texts[i]))
            end_run(SESSION_UNREADABLE);
        record->traits = parsed[i].traits;
    }
    struct known_block *block = need(malloc(sizeof *block));
    *block = (struct known_block){
        .index = results->block_count, .address = address, .packets = count, .parsed = parsed};
    sum_up(block);
    uint32_t branch = SESSION_NO_BRANCH;
    if (parsed[count - 1].traits & TRAIT_CONDITIONAL_JUMP) {
        block->branch = branch_at(addresses[count - 1]);
        branch = (uint32_t)(block->branch - session->branches);
    }
    session->blocks[results->block_count++] =
        (struct block){address, count, results->packet_count, branch};
    results->packet_count += count;
    *bucket_of(address, count) = block;
    return block;
}

static struct known_transition *add_transition(struct known_block *block, uint32_t state) {
    struct results *results = &session->results;
    if (results->transition_count == SESSION_TRANSITIONS ||
        block->packets > SESSION_DETAILS - results->detail_count)
        end_run(SESSION_TABLE_FULL);
    struct packet_wait *waits = need(malloc(block->packets * sizeof *waits));
    struct pipeline_state left = {0};
    uint32_t stalls =
        pipeline_run(&limits, states[state], block->parsed, block->packets, waits, &left);
    for (uint32_t i = 0; i < block->packets; i++)
        session->details[results->detail_count + i] =
            (struct detail){waits[i].stalls, waits[i].cause};
    free(waits);
    struct transition *record = &session->transitions[results->transition_count++];
    uint32_t next = number_of(&left);
    *record = (struct transition){block->index, stalls, results->detail_count, next, 0};
    results->detail_count += block->packets;
    struct known_transition *added = need(malloc(sizeof *added));
    *added =
        (struct known_transition){record, state, next, block->packets + stalls, block->latest};
    return block->latest = added;
}

struct known_transition *blocks_enter(struct known_block *block, uint32_t state) {
    for (struct known_transition *t = block->latest; t != NULL; t = t->other)
        if (t->from_state == state)
            return t;
    return add_transition(block, state);
}
