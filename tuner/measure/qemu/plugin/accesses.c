#include "accesses.h"

#include <stdlib.h>

#include "bounds.h"
#include "caches.h"
#include "prefetches.h"
#include "timing.h"

/* A packet that touches memory. */
struct site {
    struct packet_record *packet;
    uint32_t number; /* of the packet, in its block */
    uint16_t traits;
};

/* A vector comes in pieces (QEMU 7.2 loads 8 bytes at a time and stores single ones), from low
 * addresses to high ones. Loads and stores of one packet may come mixed: one of each here. */
struct vector {
    const struct site *site;
    uint32_t first, latest;
};

/* The first piece of an access in a packet that touches a vector and a scalar in one direction:
 * which of them it is shows with the next piece. */
struct undecided {
    const struct site *site;
    uint64_t time;
    uint32_t address, bytes;
    bool store, is_vector;
};

static struct session *session;
static bool checking, following;
static struct vector under_way[2]; /* by direction: loads, stores */
static struct undecided undecided;

void accesses_open(struct session *opened) { session = opened; }

static uint32_t size_of(uint32_t info) { return 1u << qemu_plugin_mem_size_shift(info); }

/* `bytes` are those of a scalar; stores of vectors were checked piece by piece. */
static void hand_on(const struct site *site, uint64_t time, uint32_t address, uint32_t bytes,
                    bool store, bool is_vector) {
    if (!is_vector)
        bounds_scalar(site->packet, address, bytes, store);
    else if (!store)
        bounds_vector_loaded(site->packet, address);
    if (!following)
        return;
    struct moment at = {time, site->packet};
    if (!is_vector)
        (store ? scalar_store : scalar_load)(at, address);
    else if (!store)
        vector_load(at, address, site->traits & TRAIT_UNALIGNED_LOAD);
    else
        vector_store(at, address, site->traits & TRAIT_UNALIGNED_STORE);
}

static void decide(void) {
    if (undecided.site == NULL)
        return;
    const struct site *site = undecided.site;
    undecided.site = NULL;
    hand_on(site, undecided.time, undecided.address, undecided.bytes, undecided.store,
            undecided.is_vector);
}

void accesses_follow(bool check, bool follow) {
    if (checking)
        decide();
    checking = check;
    following = follow;
    under_way[0].site = under_way[1].site = NULL;
}

/* Whether a piece at `address` belongs to the vector under way; if not, it begins another. */
static inline bool continues(const struct site *site, uint32_t address, bool store) {
    struct vector *vector = &under_way[store];
    if (vector->site == site && address > vector->latest &&
        address - vector->first < session->orders.memory_system.vector_bytes) {
        vector->latest = address;
        return true;
    }
    *vector = (struct vector){site, address, address};
    return false;
}

static void scalar_accessed(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    (void)vcpu;
    const struct site *site = data;
    if (!checking)
        return;
    decide();
    bool store = (site->traits & TRAIT_SCALAR_STORE) && qemu_plugin_mem_is_store(info);
    if (store)
        bounds_stored(site->packet, (uint32_t)address, size_of(info));
    hand_on(site, timing_clock(site->number), (uint32_t)address, size_of(info), store, false);
}

static void vector_loaded(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    (void)vcpu, (void)info;
    const struct site *site = data;
    if (!checking || continues(site, (uint32_t)address, false))
        return;
    decide();
    hand_on(site, timing_clock(site->number), (uint32_t)address, 0, false, true);
}

static void vector_stored(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    (void)vcpu;
    const struct site *site = data;
    if (!checking)
        return;
    bounds_stored(site->packet, (uint32_t)address, size_of(info));
    if (continues(site, (uint32_t)address, true))
        return;
    decide();
    hand_on(site, timing_clock(site->number), (uint32_t)address, 0, true, true);
}

/* Any mixture: directions are told apart by QEMU, scalars from vectors by the number of pieces. */
static void mixture_accessed(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    (void)vcpu;
    const struct site *site = data;
    if (!checking)
        return;
    bool store = qemu_plugin_mem_is_store(info);
    if (store)
        bounds_stored(site->packet, (uint32_t)address, size_of(info));
    uint16_t scalar = store ? TRAIT_SCALAR_STORE : TRAIT_SCALAR_LOAD;
    uint16_t vector = store ? TRAIT_VECTOR_STORE : TRAIT_VECTOR_LOAD;
    if ((site->traits & vector) && continues(site, (uint32_t)address, store)) {
        if (undecided.site == site && undecided.store == store)
            undecided.is_vector = true;
        return;
    }
    decide();
    uint64_t time = timing_clock(site->number);
    if ((site->traits & vector) && (site->traits & scalar))
        undecided = (struct undecided){site, time, (uint32_t)address, size_of(info), store, false};
    else
        hand_on(site, time, (uint32_t)address, size_of(info), store, (site->traits & vector) != 0);
}

/* Gathers and scatters touch single elements, which the unit does by itself: of interest is where
 * the gathered vector goes. */
static void gather_accessed(unsigned vcpu, uint32_t info, uint64_t address, void *data) {
    (void)vcpu;
    const struct site *site = data;
    if (checking && qemu_plugin_mem_is_store(info))
        bounds_stored(site->packet, (uint32_t)address, size_of(info));
    if (!following || !(site->traits & TRAIT_GATHER) || !qemu_plugin_mem_is_store(info) ||
        continues(site, (uint32_t)address, true))
        return;
    decide();
    gathered((struct moment){timing_clock(site->number), site->packet}, (uint32_t)address);
}

static mem_callback callback_for(uint16_t traits) {
    switch (traits & (TRAIT_SCALAR_ACCESS | TRAIT_VECTOR_ACCESS)) {
    case 0: return NULL;
    case TRAIT_SCALAR_LOAD: case TRAIT_SCALAR_STORE: case TRAIT_SCALAR_ACCESS:
        return scalar_accessed;
    case TRAIT_VECTOR_LOAD: return vector_loaded;
    case TRAIT_VECTOR_STORE: return vector_stored;
    default: return traits & (TRAIT_GATHER | TRAIT_SCATTER) ? gather_accessed : mixture_accessed;
    }
}

/* QEMU 7.2 must be asked once for both directions, and only for packets that touch memory: else
 * it reports accesses of other packets. */
static void watch_packet(struct qemu_plugin_insn *insn, struct known_block *block, uint32_t i) {
    const struct packet *parsed = &block->parsed[i];
    uint32_t first = session->blocks[block->index].first_packet;
    mem_callback callback = callback_for(parsed->traits);
    if (callback == NULL && !(parsed->traits & TRAIT_PREFETCH))
        return;
    struct site *site = malloc(sizeof *site);
    if (site == NULL)
        end_run(SESSION_TABLE_FULL);
    *site = (struct site){&session->packets[first + i], i, parsed->traits};
    if (callback != NULL)
        qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, site);
    else
        prefetches_watch(insn, &parsed->prefetch, site->packet, i);
}

void accesses_watch(struct qemu_plugin_tb *tb, struct known_block *block) {
    for (uint32_t i = 0; i < block->packets; i++)
        if (block->parsed[i].traits & (TRAIT_SCALAR_ACCESS | TRAIT_VECTOR_ACCESS | TRAIT_PREFETCH))
            watch_packet(qemu_plugin_tb_get_insn(tb, i), block, i);
}
