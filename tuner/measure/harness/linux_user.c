/* The harness as a program for qemu-hexagon: four system calls, and memory at fixed addresses. */
#include <stddef.h>

#include "harness.h"
#include "memory_map.h"

/* The plugin lets these through outside of calls (plugin/plugin.c); call.S makes the fourth. */
enum { SYS_EXIT_GROUP = 94, SYS_MUNMAP = 215, SYS_MMAP = 222 };
enum { PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_FIXED = 16, MAP_ANONYMOUS = 32, MAP_NORESERVE = 0x4000 };
enum { IMAGE_DESCRIPTOR = 0, MMAP_UNIT_BYTES = 4096 }; /* mmap counts offsets in these */

static int32_t system_call(int32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                           int32_t e, uint32_t f) {
    register uint32_t r0 __asm__("r0") = a;
    register uint32_t r1 __asm__("r1") = b;
    register uint32_t r2 __asm__("r2") = c;
    register uint32_t r3 __asm__("r3") = d;
    register int32_t r4 __asm__("r4") = e;
    register uint32_t r5 __asm__("r5") = f;
    register int32_t r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6)
                     : "memory");
    return (int32_t)r0;
}

static __attribute__((noreturn)) void leave(int status) {
    for (;;)
        system_call(SYS_EXIT_GROUP, (uint32_t)status, 0, 0, 0, 0, 0);
}

static void *map(uint32_t address, uint32_t bytes, uint32_t protection, uint32_t flags,
                 int32_t descriptor, uint32_t offset) {
    if (bytes == 0)
        return NULL;
    int32_t got = system_call(SYS_MMAP, address, bytes, protection, flags | MAP_FIXED, descriptor,
                              offset / MMAP_UNIT_BYTES);
    if ((uint32_t)got != address)
        leave(100);
    return (void *)address;
}

/* Memory that was never written to reads as poison, not as zeros. */
static void map_poisoned(uint32_t address, uint32_t bytes, uint32_t poison) {
    for (uint32_t at = 0, step; at < bytes; at += step) {
        step = bytes - at < POISON_BYTES ? bytes - at : POISON_BYTES;
        map(address + at, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE,
            POISON_DESCRIPTOR, poison * POISON_BYTES);
    }
}

static void *map_image(uint32_t address, uint32_t bytes, uint32_t protection, uint32_t offset) {
    return map(address, bytes, protection, MAP_SHARED, IMAGE_DESCRIPTOR, offset);
}

uint8_t *open_case(const struct image_header *image, const struct image_case *one) {
    map_poisoned(STACK_ADDRESS, STACK_BYTES, one->poison);
    map_poisoned(HEAP_ADDRESS, image->heap_bytes, one->poison);
    map_poisoned(VTCM_ADDRESS, image->vtcm_bytes, one->poison);
    return map_image(CASE_ADDRESS, one->part_bytes, PROT_READ | PROT_WRITE, one->part_offset);
}

void close_case(const struct image_case *one) {
    if (system_call(SYS_MUNMAP, CASE_ADDRESS, one->part_bytes, 0, 0, 0, 0) != 0)
        leave(103);
}

static __attribute__((noreturn, used)) void run_image(void) {
    struct image_header *image = map_image(IMAGE_ADDRESS, sizeof *image, PROT_READ, 0);
    if (image->magic != IMAGE_MAGIC || image->version != IMAGE_VERSION)
        leave(101);
    uint32_t report = image->report_offset;
    map_image(IMAGE_ADDRESS, report, PROT_READ, 0);
    map_image(IMAGE_ADDRESS + report, sizeof(struct image_report), PROT_READ | PROT_WRITE, report);
    leave(run_cases(image, (void *)HEAP_ADDRESS, (void *)VTCM_ADDRESS));
}

__attribute__((noreturn)) void hvxtune_start(void) {
    uint32_t flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    uint8_t *stack = map(HARNESS_ADDRESS, HARNESS_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    __asm__ volatile("{ r29 = %0\n  r30 = #0\n  jump run_image }" : : "r"(stack + HARNESS_BYTES));
    __builtin_unreachable();
}
