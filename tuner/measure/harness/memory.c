/* Memory for candidates: what C and Halide's objects call to copy, fill and allocate. */
#include <stddef.h>

#include "harness.h"

struct block {
    uint32_t previous; /* like arena.last */
    uint32_t in_use;
};

static uint32_t aligned(const struct arena *arena, uint32_t bytes) {
    return (bytes + arena->alignment - 1) & -arena->alignment;
}

void arena_open(struct arena *arena, void *base, uint32_t bytes, uint32_t alignment) {
    *arena = (struct arena){.base = base, .bytes = bytes, .alignment = alignment};
}

#ifdef KEEP_ARENA_MOST
/* As tuner/measure/cases.py: no byte is 0 in either pattern, the second complements the first. */
void poison_words(uint32_t *at, uint32_t bytes, uint32_t poison) {
    uint32_t turned = poison ? ~0u : 0, word = 1;
    for (uint32_t i = 0; i < bytes / 4; i++) {
        word = word * 1664525 + 1013904223; /* Numerical Recipes' generator */
        at[i] = ((word & 0x7e7e7e7e) | 0x01010101) ^ turned;
    }
}
#endif

void *arena_take(struct arena *arena, uint32_t bytes) {
    uint32_t header = aligned(arena, sizeof(struct block));
    uint32_t left = arena->bytes - arena->used;
    if (left < header || bytes > left - header || aligned(arena, bytes) > left - header)
        return NULL;
    struct block *block = (struct block *)(arena->base + arena->used);
    *block = (struct block){arena->last, 1};
    arena->last = arena->used + 1;
    arena->used += header + aligned(arena, bytes);
#ifdef KEEP_ARENA_MOST /* on a DSP, where memory is cleared by hand; else it would cost cycles */
    if (arena->used > arena->most) {
        uint32_t payload = arena->used - aligned(arena, bytes);
        uint32_t fresh = payload > arena->most ? payload : arena->most;
        if (arena->poison != 0)
            poison_words((uint32_t *)(arena->base + fresh), arena->used - fresh, arena->poison - 1);
        arena->most = arena->used;
    }
#endif
    return (uint8_t *)block + header;
}

void arena_give_back(struct arena *arena, void *pointer) {
    if (pointer == NULL)
        return;
    struct block *block =
        (struct block *)((uint8_t *)pointer - aligned(arena, sizeof(struct block)));
    block->in_use = 0;
    while (arena->last != 0) {
        block = (struct block *)(arena->base + arena->last - 1);
        if (block->in_use)
            break;
        arena->used = arena->last - 1;
        arena->last = block->previous;
    }
}

static void *take_from_heap(uint32_t bytes) {
    void *taken = arena_take(&runtime.heap, bytes);
    if (taken == NULL)
        runtime.report->heap_refused_bytes = bytes;
    return taken;
}

void *malloc(size_t bytes) { return take_from_heap(bytes); }
void free(void *pointer) { arena_give_back(&runtime.heap, pointer); }

void *halide_malloc(void *user_context, size_t bytes) {
    (void)user_context;
    return take_from_heap(bytes);
}

void halide_free(void *user_context, void *pointer) {
    (void)user_context;
    arena_give_back(&runtime.heap, pointer);
}

/* VTCM, as the Hexagon SDK offers it: NULL if it does not fit. */
void *HAP_request_VTCM(unsigned bytes, unsigned single_page) {
    (void)single_page;
    void *taken = arena_take(&runtime.vtcm, bytes);
    if (taken == NULL)
        runtime.report->vtcm_refused_bytes = bytes;
    return taken;
}

int HAP_release_VTCM(void *pointer) {
    arena_give_back(&runtime.vtcm, pointer);
    return 0;
}

/* Both addresses are multiples of 8. */
static int both_on_doublewords(const void *a, const void *b) {
    return (((uintptr_t)a | (uintptr_t)b) & 7) == 0;
}

static void *copy_upwards(void *to, const void *from, size_t bytes) {
    uint8_t *t = to;
    const uint8_t *f = from;
    if (both_on_doublewords(to, from))
        for (; bytes >= 8; bytes -= 8, t += 8, f += 8)
            *(uint64_t *)t = *(const uint64_t *)f;
    while (bytes--)
        *t++ = *f++;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    return copy_upwards(to, from, bytes);
}

void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes)
        return copy_upwards(to, from, bytes);
    uint8_t *t = to;
    const uint8_t *f = from;
    while (bytes--)
        t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int value, size_t bytes) {
    uint8_t *t = to;
    uint64_t eight = 0x0101010101010101u * (uint8_t)value;
    if (((uintptr_t)to & 7) == 0)
        for (; bytes >= 8; bytes -= 8, t += 8)
            *(uint64_t *)t = eight;
    while (bytes--)
        *t++ = (uint8_t)value;
    return to;
}

/* clang calls this for copies it knows to be aligned and a multiple of 8 bytes of at least 32. */
void *__hexagon_memcpy_likely_aligned_min32bytes_mult8bytes(void *to, const void *from,
                                                            size_t bytes) {
    return memcpy(to, from, bytes);
}
