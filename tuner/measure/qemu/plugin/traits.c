#include "traits.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Where `word` begins in [text, end), not as the rest of a longer word; NULL if nowhere. */
static const char *find(const char *text, const char *end, const char *word) {
    size_t length = strlen(word);
    for (const char *p = text; p + length <= end; p++)
        if (memcmp(p, word, length) == 0 &&
            (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')))
            return p;
    return NULL;
}

/* The access at `at` is a store if a value is assigned to it. */
static bool is_assigned(const char *at, const char *end) {
    const char *close = memchr(at, ')', (size_t)(end - at));
    return close != NULL && memchr(close, '=', (size_t)(end - close)) != NULL;
}

/* memw(R0) += R1, memb(R0) = setbit(#3): reads what it writes. */
static bool reads_memory_too(const char *at, const char *end) {
    const char *close = memchr(at, ')', (size_t)(end - at));
    const char *equals = memchr(close, '=', (size_t)(end - close));
    return strchr("+-&|", equals[-1]) != NULL || find(equals, end, "setbit(") != NULL ||
           find(equals, end, "clrbit(") != NULL;
}

static uint16_t scalar_access(const char *text, const char *end) {
    const char *access = find(text, end, "mem");
    if (access != NULL) {
        if (!is_assigned(access, end))
            return TRAIT_SCALAR_LOAD;
        return reads_memory_too(access, end) ? TRAIT_SCALAR_ACCESS : TRAIT_SCALAR_STORE;
    }
    if (find(text, end, "deallocframe(") || find(text, end, "dealloc_return"))
        return TRAIT_SCALAR_LOAD;
    if (find(text, end, "allocframe(") || find(text, end, "dczeroa("))
        return TRAIT_SCALAR_STORE;
    return 0;
}

static uint16_t vector_access(const char *text, const char *end) {
    const char *access;
    if (find(text, end, "vgather("))
        return TRAIT_GATHER;
    if (find(text, end, "vscatter("))
        return TRAIT_SCATTER;
    if ((access = find(text, end, "vmemu(")))
        return is_assigned(access, end) ? TRAIT_VECTOR_STORE | TRAIT_UNALIGNED_STORE
                                        : TRAIT_VECTOR_LOAD | TRAIT_UNALIGNED_LOAD;
    if ((access = find(text, end, "vmem(")))
        return is_assigned(access, end) ? TRAIT_VECTOR_STORE : TRAIT_VECTOR_LOAD;
    return 0;
}

/* l2fetch(R0,R3:2), l2fetch(R0,R2), dcfetch(R0+#0x40) */
static uint16_t prefetch_of(const char *text, const char *end, struct prefetch *prefetch) {
    const char *at = find(text, end, "l2fetch(");
    bool is_box = at != NULL;
    if (at == NULL)
        at = find(text, end, "dcfetch(");
    if (at == NULL)
        return 0;
    char *rest;
    *prefetch = (struct prefetch){.is_box = is_box};
    prefetch->base = (uint8_t)(strtol(strchr(at, '(') + 2, &rest, 10) & 31);
    if (is_box) {
        prefetch->box = (uint8_t)(strtol(rest + 2, &rest, 10) & 31);
        prefetch->is_pair = *rest == ':';
        if (prefetch->is_pair)
            prefetch->box = (uint8_t)(prefetch->box - 1);
    } else if (*rest == '+') {
        prefetch->offset = (int32_t)strtol(rest + 2, NULL, 0);
    }
    return TRAIT_PREFETCH;
}

uint16_t instruction_traits(const char *text, const char *end, struct prefetch *prefetch) {
    if (strncmp(text, "if (", 4) == 0 && find(text, end, "jump") != NULL)
        return TRAIT_CONDITIONAL_JUMP;
    uint16_t traits = prefetch_of(text, end, prefetch);
    if (traits == 0)
        traits = vector_access(text, end);
    return traits != 0 ? traits : scalar_access(text, end);
}
