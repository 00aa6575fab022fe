/* The C library's memory and strings, as far as shared objects for the DSP ask for them. */
#include "loader.h"

/* Blocks come from one large mapping and go back to a list of their size, a power of two. */
enum { HEAP_BYTES = 0x30000000, SMALLEST = 5, SIZES = 31 };

struct block {
    struct block *next;
    uint32_t size; /* as a power of two; kept while in use, just before the caller's bytes */
};

static uint8_t *heap, *heap_end;
static struct block *spare[SIZES];

void *memalign(size_t alignment, size_t bytes) {
    uint32_t before = alignment > sizeof(struct block) ? alignment : sizeof(struct block);
    uint32_t size = SMALLEST;
    while (size < SIZES - 1 && (1u << size) < bytes)
        size++;
    if (bytes > 1u << size)
        return NULL;
    for (struct block **one = &spare[size]; *one != NULL; one = &(*one)->next)
        if (((uintptr_t)(*one + 1) & (before - 1)) == 0) {
            struct block *block = *one;
            *one = block->next;
            return block + 1;
        }
    if (heap == NULL) {
        heap = map_memory(HEAP_BYTES);
        if (heap == NULL)
            return NULL;
        heap_end = heap + HEAP_BYTES;
    }
    uintptr_t start = ((uintptr_t)heap + sizeof(struct block) + before - 1) & -(uintptr_t)before;
    if (start > (uintptr_t)heap_end || (1u << size) > (uintptr_t)heap_end - start)
        return NULL;
    heap = (uint8_t *)start + (1u << size);
    struct block *block = (struct block *)start - 1;
    block->size = size;
    return (void *)start;
}

void *malloc(size_t bytes) { return memalign(16, bytes); }

void free(void *pointer) {
    if (pointer == NULL)
        return;
    struct block *block = (struct block *)pointer - 1;
    block->next = spare[block->size];
    spare[block->size] = block;
}

void *calloc(size_t count, size_t bytes) {
    void *taken = bytes && count > 0xffffffffu / bytes ? NULL : malloc(count * bytes);
    return taken ? memset(taken, 0, count * bytes) : NULL;
}

void *realloc(void *old, size_t bytes) {
    size_t had = old ? 1u << ((struct block *)old - 1)->size : 0;
    if (had >= bytes && old)
        return old;
    void *taken = malloc(bytes);
    if (taken != NULL && old != NULL)
        memcpy(taken, old, had), free(old);
    return taken;
}

int posix_memalign(void **to, size_t alignment, size_t bytes) {
    *to = memalign(alignment, bytes);
    return *to ? 0 : 12; /* ENOMEM */
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
    uint8_t *t = to;
    const uint8_t *f = from;
    if ((((uintptr_t)t | (uintptr_t)f) & 7) == 0)
        for (; bytes >= 8; bytes -= 8, t += 8, f += 8)
            *(uint64_t *)t = *(const uint64_t *)f;
    while (bytes--)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes) {
    if ((uintptr_t)to - (uintptr_t)from >= bytes)
        return memcpy(to, from, bytes);
    while (bytes--)
        ((uint8_t *)to)[bytes] = ((const uint8_t *)from)[bytes];
    return to;
}

void *memset(void *to, int value, size_t bytes) {
    for (uint8_t *t = to; bytes--;)
        *t++ = (uint8_t)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes) {
    for (const uint8_t *x = a, *y = b; bytes--; x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

size_t strlen(const char *text) {
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}

int strncmp(const char *a, const char *b, size_t bytes) {
    for (; bytes--; a++, b++)
        if (*a != *b || *a == 0)
            return (uint8_t)*a - (uint8_t)*b;
    return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, 0xffffffffu); }
char *strcpy(char *restrict to, const char *restrict from) {
    return memcpy(to, from, strlen(from) + 1);
}

unsigned long strtoul(const char *text, char **end, int base) {
    unsigned long value = 0;
    int negative = *text == '-';
    text += negative;
    if ((base == 0 || base == 16) && text[0] == '0' && (text[1] | 32) == 'x')
        text += 2, base = 16;
    for (;; text++) {
        int digit = *text >= '0' && *text <= '9' ? *text - '0' : (*text | 32) - 'a' + 10;
        if (digit < 0 || digit >= (base ? base : 10))
            break;
        value = value * (unsigned)(base ? base : 10) + (unsigned)digit;
    }
    if (end != NULL)
        *end = (char *)text;
    return negative ? -value : value;
}

long strtol(const char *text, char **end, int base) { return (long)strtoul(text, end, base); }
int atoi(const char *text) { return (int)strtoul(text, NULL, 10); }
