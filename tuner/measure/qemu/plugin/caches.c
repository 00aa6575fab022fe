#include "caches.h"

#include <stdlib.h>
#include <string.h>

#include "account.h"
#include "waits.h"

enum state { VALID = 1, DIRTY = 2, IN_L1 = 4, STATE = 7 }; /* low bits of a tag */

struct line {
    uint32_t tag; /* address of the line and its state */
    uint32_t used;
    uint64_t fetched; /* when a prefetch asked for it; 0 once it was used */
    uint64_t slot;    /* when DDR begins to send what was asked for */
    uint64_t stored;  /* when a vector store to it reaches L2; 0 for long ago */
};

struct cache {
    struct line *lines;
    uint32_t line_bytes, sets, ways, uses;
};

static const struct memory_system *system_;
static struct cache l1, l2;
static uint64_t *vtcm_gathered; /* for each vector of VTCM: when a gather into it is done */
static uint32_t vtcm_begin;
static uint32_t *vtcm_used; /* bytes up to the last vector that was touched */
static uint64_t waited;   /* for stores to reach L2, so far */
static uint64_t ddr_free; /* when DDR is done with what it was asked for so far */
static uint64_t queued;   /* time that passed while DDR was busy with other lines */

static bool open_cache(struct cache *cache, uint32_t line_bytes, uint32_t sets, uint32_t ways) {
    *cache = (struct cache){calloc(sets * ways, sizeof(struct line)), line_bytes, sets, ways, 0};
    return cache->lines != NULL;
}

bool caches_open(const struct memory_system *system, uint32_t begin, uint32_t *used) {
    system_ = system;
    vtcm_begin = begin;
    vtcm_used = used;
    vtcm_gathered = calloc(system->vtcm_bytes / system->vector_bytes + 1, sizeof *vtcm_gathered);
    return vtcm_gathered != NULL &&
           open_cache(&l1, system->l1_line_bytes, system->l1_sets, system->l1_ways) &&
           open_cache(&l2, system->l2_line_bytes, system->l2_sets, system->l2_ways);
}

void caches_empty(void) {
    memset(l1.lines, 0, l1.sets * l1.ways * sizeof *l1.lines);
    memset(l2.lines, 0, l2.sets * l2.ways * sizeof *l2.lines);
}

static uint32_t line_of(const struct cache *cache, uint32_t address) {
    return address & -cache->line_bytes;
}

static struct line *set_of(const struct cache *cache, uint32_t line) {
    return &cache->lines[line / cache->line_bytes % cache->sets * cache->ways];
}

static struct line *find(struct cache *cache, uint32_t line) {
    struct line *set = set_of(cache, line);
    for (uint32_t way = 0; way < cache->ways; way++)
        if ((set[way].tag & ~(STATE & ~VALID)) == (line | VALID)) {
            set[way].used = ++cache->uses;
            return &set[way];
        }
    return NULL;
}

static struct line *least_recently_used(const struct cache *cache, uint32_t line) {
    struct line *set = set_of(cache, line), *least = set;
    for (uint32_t way = 0; way < cache->ways; way++) {
        if (!(set[way].tag & VALID))
            return &set[way];
        if (set[way].used < least->used)
            least = &set[way];
    }
    return least;
}

/* L1 gives up what it holds of a line of L2. */
static void invalidate_l1(uint32_t line) {
    for (uint32_t offset = 0; offset < l2.line_bytes; offset += l1.line_bytes) {
        struct line *found = find(&l1, line + offset);
        if (found != NULL)
            found->tag = 0;
    }
}

static struct line *allocate(struct cache *cache, uint32_t line) {
    struct line *new = least_recently_used(cache, line);
    *new = (struct line){.tag = line | VALID, .used = ++cache->uses};
    return new;
}

/* The time with all waits so far. It decides how early a prefetch was; what the call costs is
 * worked out from the events alone. */
static uint64_t now(struct moment at) { return at.time + (account.extra >> 8) + queued; }

/* One line is moved; returns when DDR begins with it. DDR moves one after the other. */
static uint64_t transfer(struct moment at, enum event direction) {
    charge_transfer(direction, l2.line_bytes);
    uint64_t time = now(at);
    uint64_t begins = ddr_free > time ? ddr_free : time;
    ddr_free = begins + system_->line_transfer;
    return begins;
}

static void wait_for_slot(struct moment at, uint64_t slot) {
    if (slot > now(at))
        queued += slot - now(at);
}

static struct line *allocate_l2(struct moment at, uint32_t line) {
    const struct line *old = least_recently_used(&l2, line);
    if (old->tag & DIRTY)
        transfer(at, EVENT_DDR_WRITTEN_BYTES);
    if (old->tag & IN_L1)
        invalidate_l1(old->tag & ~STATE);
    return allocate(&l2, line);
}

/* The line in L2, fetched from DDR if it was not there. A `load` waits for it. */
static struct line *line_in_l2(struct moment at, uint32_t line, bool load) {
    struct line *found = find(&l2, line);
    if (found == NULL) {
        found = allocate_l2(at, line);
        uint64_t slot = transfer(at, EVENT_DDR_READ_BYTES);
        if (load) {
            charge(EVENT_L2_MISSES, 1);
            at.packet->l2_misses++;
            wait_for_slot(at, slot);
            wait_for_memory(at.time, 0);
        }
    } else if (found->fetched != 0 && load) {
        wait_for_slot(at, found->slot);
        uint64_t time = now(at);
        wait_for_memory(at.time, time > found->fetched ? time - found->fetched : 0);
        found->fetched = 0;
    }
    return found;
}

static bool in_vtcm(uint32_t address) { return address - vtcm_begin < system_->vtcm_bytes; }

static void use_vtcm(uint32_t address) {
    uint32_t end = ((address - vtcm_begin) / system_->vector_bytes + 1) * system_->vector_bytes;
    if (end > *vtcm_used)
        *vtcm_used = end;
    charge(EVENT_VTCM_ACCESSES, 1);
}

static uint64_t *gathered_at(uint32_t address) {
    return &vtcm_gathered[(address - vtcm_begin) / system_->vector_bytes];
}

static void miss_l1(struct packet_record *packet) {
    charge(EVENT_L1_MISSES, 1);
    packet->l1_misses++;
}

static struct line *fill_l1(struct moment at, uint32_t address, bool load) {
    line_in_l2(at, line_of(&l2, address), load)->tag |= IN_L1;
    struct line *old = least_recently_used(&l1, line_of(&l1, address));
    struct line *above = old->tag & DIRTY ? find(&l2, line_of(&l2, old->tag & ~STATE)) : NULL;
    if (above != NULL)
        above->tag |= DIRTY;
    return allocate(&l1, line_of(&l1, address));
}

void scalar_load(struct moment at, uint32_t address) {
    charge(EVENT_SCALAR_ACCESSES, 1);
    if (in_vtcm(address)) { /* not cached in L1: as far away as L2 */
        use_vtcm(address);
        miss_l1(at.packet);
        return;
    }
    struct line *found = find(&l1, line_of(&l1, address));
    if (found == NULL) {
        miss_l1(at.packet);
        fill_l1(at, address, true);
    } else if (found->fetched != 0) {
        if (now(at) < found->fetched + system_->l1_fetch)
            miss_l1(at.packet);
        line_in_l2(at, line_of(&l2, address), true); /* may be on its way from DDR */
        found->fetched = 0;
    }
}

void scalar_store(struct moment at, uint32_t address) {
    charge(EVENT_SCALAR_ACCESSES, 1);
    if (in_vtcm(address)) {
        use_vtcm(address);
        return;
    }
    struct line *found = find(&l1, line_of(&l1, address));
    if (found == NULL) /* the store waits in a buffer, not in the pipeline */
        found = fill_l1(at, address, false);
    found->tag |= DIRTY;
}

/* Waits until what was stored, or gathered, at `ready` can be loaded. */
static void wait_for_store(struct moment at, uint64_t ready) {
    uint64_t time = at.time + waited; /* no other waits: so it depends on no costs */
    if (ready <= time)
        return;
    charge(EVENT_STORE_TO_LOAD, ready - time);
    at.packet->store_to_load += ready - time;
    waited += ready - time;
}

static void load_line(struct moment at, uint32_t address) {
    if (in_vtcm(address)) {
        use_vtcm(address);
        wait_for_store(at, *gathered_at(address));
        return;
    }
    charge(EVENT_L2_ACCESSES, 1);
    const struct line *line = line_in_l2(at, line_of(&l2, address), true);
    wait_for_store(at, line->stored);
}

static void store_line(struct moment at, uint32_t address, bool whole) {
    if (in_vtcm(address)) {
        use_vtcm(address);
        *gathered_at(address) = 0;
        return;
    }
    charge(EVENT_L2_ACCESSES, 1);
    uint32_t place = line_of(&l2, address);
    struct line *line = find(&l2, place);
    if (line == NULL) /* a line that is written whole is not read first */
        line = whole ? allocate_l2(at, place) : line_in_l2(at, place, false);
    if (line->tag & IN_L1)
        invalidate_l1(place);
    line->tag = place | VALID | DIRTY;
    line->fetched = 0;
    line->stored = at.time + waited + system_->store_to_load;
}

/* The first address of each line that a vector at `address` touches: one or two (or more, where
 * lines are shorter than vectors). Splits are charged here. */
static uint32_t lines_touched(struct moment at, uint32_t *address, bool unaligned) {
    uint32_t vector_bytes = system_->vector_bytes;
    if (!unaligned || *address % vector_bytes == 0) {
        *address &= -vector_bytes;
        return vector_bytes / l2.line_bytes;
    }
    charge(EVENT_LINE_SPLITS, 1);
    at.packet->line_splits++;
    uint32_t last = (*address + vector_bytes - 1) / l2.line_bytes;
    return last - *address / l2.line_bytes + 1;
}

void vector_load(struct moment at, uint32_t address, bool unaligned) {
    uint32_t lines = lines_touched(at, &address, unaligned);
    for (uint32_t i = 0; i < lines; i++)
        load_line(at, line_of(&l2, address) + i * l2.line_bytes);
}

void vector_store(struct moment at, uint32_t address, bool unaligned) {
    bool whole = !unaligned || address % system_->vector_bytes == 0;
    uint32_t lines = lines_touched(at, &address, unaligned);
    for (uint32_t i = 0; i < lines; i++)
        store_line(at, line_of(&l2, address) + i * l2.line_bytes, whole);
}

void gathered(struct moment at, uint32_t address) {
    if (in_vtcm(address))
        *gathered_at(address) = at.time + waited + system_->gather_to_load;
}

/* `ahead` lines were asked for before it by the same instruction. */
static void prefetch_into_l2(struct moment at, uint32_t line, uint32_t ahead) {
    if (find(&l2, line) != NULL)
        return;
    struct line *found = allocate_l2(at, line);
    found->fetched = now(at) + (uint64_t)ahead * system_->line_transfer;
    found->slot = transfer(at, EVENT_DDR_READ_BYTES);
    charge(EVENT_PREFETCHED_LINES, 1);
}

void prefetch_line(struct moment at, uint32_t address) {
    if (in_vtcm(address) || find(&l1, line_of(&l1, address)) != NULL)
        return;
    prefetch_into_l2(at, line_of(&l2, address), 0);
    fill_l1(at, address, false)->fetched = now(at);
}

void prefetch_box(struct moment at, uint32_t address, uint32_t width, uint32_t height,
                  uint32_t stride) {
    uint32_t most = l2.sets * l2.ways; /* what is more would push out the first again */
    uint32_t count = 0;
    for (uint32_t row = 0; width > 0 && row < height; row++, address += stride) {
        uint32_t first = address / l2.line_bytes, last = (address + width - 1) / l2.line_bytes;
        for (uint32_t line = first; line <= last; line++) {
            if (count++ == most)
                return;
            if (!in_vtcm(line * l2.line_bytes))
                prefetch_into_l2(at, line * l2.line_bytes, count - 1);
        }
    }
}
