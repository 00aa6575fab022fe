/* Loaded before libHalide: memory of a compilation, at addresses that nothing else decides.
 *
 * LLVM goes through sets of pointers in the order of their values, so the bytes of an object depend
 * on where each allocation lies. A thread that has called hvxtune_fix_memory() gets its memory from
 * one region at a fixed address, in an order that follows from its own calls alone: not from what the
 * process did before, what else it has loaded, or address space randomization. All other threads use
 * the C library's allocator, which also takes back what it gave.
 *
 * Blocks are of size classes with a list of free ones each; nothing is returned to the system, as
 * the process ends with its compilation. No locks: one thread calls hvxtune_fix_memory() in a process.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORTED __attribute__((visibility("default")))

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

enum {
    SMALL_STEP = 16,                /* bytes between the classes of small blocks */
    SMALL_MOST = 1024,              /* the largest of them */
    SMALL_CLASSES = SMALL_MOST / SMALL_STEP,
    STEPS = 4,                      /* classes for each doubling above that */
    CLASSES = SMALL_CLASSES + STEPS * 40,
    GROWTH = 4 << 20,               /* bytes taken from the system at once */
};
#define REGION ((char *)0x200000000000) /* far from programs, libraries, stacks and heaps */
#define REGION_BYTES ((size_t)1 << 40)

/* In front of every block; 16 bytes, as blocks are aligned. */
struct header {
    uint32_t class;
    uint32_t shift; /* bytes from the block's own place to where an alignment moved it */
    uint64_t unused;
};

static __thread int is_fixed __attribute__((tls_model("initial-exec")));
static char *next = REGION;   /* the first byte never handed out */
static char *mapped = REGION; /* the end of what the system gave */
static void *free_blocks[CLASSES];
static size_t (*libc_usable)(void *);

__attribute__((constructor)) static void find_libc(void) {
    libc_usable = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
}

EXPORTED void hvxtune_fix_memory(void) { is_fixed = 1; }

static int is_ours(const void *block) {
    return (uintptr_t)block - (uintptr_t)REGION < REGION_BYTES;
}

static uint32_t class_of(size_t bytes) {
    if (bytes <= SMALL_MOST)
        return bytes ? (bytes - 1) / SMALL_STEP : 0;
    unsigned doubling = 63 - __builtin_clzll(bytes - 1); /* 2^doubling < bytes <= 2^(doubling+1) */
    size_t step = ((size_t)1 << doubling) / STEPS;
    return SMALL_CLASSES + (doubling - 10) * STEPS + (bytes - ((size_t)1 << doubling) - 1) / step;
}

static size_t bytes_of(uint32_t class) {
    if (class < SMALL_CLASSES)
        return (class + 1) * (size_t)SMALL_STEP;
    class -= SMALL_CLASSES;
    size_t doubled = (size_t)1 << (10 + class / STEPS);
    return doubled + (class % STEPS + 1) * (doubled / STEPS);
}

static struct header *header_of(void *block) { return (struct header *)block - 1; }

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

/* A block of at least `bytes`, aligned to 16. */
static void *take(size_t bytes) {
    if (bytes > REGION_BYTES / 4)
        return no_memory();
    uint32_t class = class_of(bytes);
    void *block = free_blocks[class];
    if (block) {
        memcpy(&free_blocks[class], block, sizeof block);
        return block;
    }
    size_t whole = bytes_of(class) + sizeof(struct header);
    if (whole > (size_t)(mapped - next)) {
        size_t more = (whole - (mapped - next) + GROWTH - 1) / GROWTH * GROWTH;
        if (mapped + more > REGION + REGION_BYTES ||
            mmap(mapped, more, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != mapped)
            return no_memory();
        mapped += more;
    }
    block = next + sizeof(struct header);
    next += whole;
    *header_of(block) = (struct header){.class = class};
    return block;
}

static void give_back(void *moved) {
    void *block = (char *)moved - header_of(moved)->shift;
    uint32_t class = header_of(block)->class;
    memcpy(block, &free_blocks[class], sizeof block);
    free_blocks[class] = block;
}

static size_t usable(void *moved) {
    uint32_t shift = header_of(moved)->shift;
    return bytes_of(header_of((char *)moved - shift)->class) - shift;
}

static void *take_aligned(size_t alignment, size_t bytes) {
    if (alignment <= sizeof(struct header))
        return take(bytes);
    if (bytes > REGION_BYTES / 4 || alignment > GROWTH)
        return no_memory();
    char *block = take(bytes + alignment);
    if (!block)
        return NULL;
    size_t shift = -(uintptr_t)block & (alignment - 1);
    if (shift)
        *header_of(block + shift) = (struct header){.shift = shift};
    return block + shift;
}

EXPORTED void *malloc(size_t bytes) { return is_fixed ? take(bytes) : __libc_malloc(bytes); }

EXPORTED void free(void *block) {
    if (is_ours(block))
        give_back(block);
    else
        __libc_free(block);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    size_t whole;
    if (!is_fixed)
        return __libc_calloc(count, bytes);
    if (__builtin_mul_overflow(count, bytes, &whole))
        return no_memory();
    void *block = take(whole);
    return block ? memset(block, 0, whole) : NULL;
}

EXPORTED size_t malloc_usable_size(void *block) {
    return block && is_ours(block) ? usable(block) : libc_usable(block);
}

EXPORTED void *realloc(void *block, size_t bytes) {
    if (!is_fixed && !is_ours(block))
        return __libc_realloc(block, bytes);
    if (!block)
        return malloc(bytes);
    if (!bytes) {
        free(block);
        return NULL;
    }
    size_t had = malloc_usable_size(block);
    if (is_ours(block) && bytes <= had)
        return block;
    void *moved = malloc(bytes);
    if (moved) {
        memcpy(moved, block, had < bytes ? had : bytes);
        free(block);
    }
    return moved;
}

EXPORTED void *memalign(size_t alignment, size_t bytes) {
    return is_fixed ? take_aligned(alignment, bytes) : __libc_memalign(alignment, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

EXPORTED int posix_memalign(void **place, size_t alignment, size_t bytes) {
    int before = errno;
    void *block = memalign(alignment, bytes);
    errno = before;
    if (!block)
        return ENOMEM;
    *place = block;
    return 0;
}
