/* The harness as a program for qemu-hexagon: four system calls, and memory at fixed addresses. */
#include <stddef.h>

#include "harness.h"
#include "memory_map.h"
#include "system_call.h"

enum { IMAGE_DESCRIPTOR = 0 };

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

static uint32_t views_of(const struct image_case *one) {
    return one->window_bytes != 0 ? one->buffer_count : 1;
}

uint8_t *open_case(const struct image_header *image, const struct image_case *one) {
    map_poisoned(STACK_ADDRESS, STACK_BYTES, one->poison);
    map_poisoned(HEAP_ADDRESS, image->heap_bytes, one->poison);
    map_poisoned(VTCM_ADDRESS, image->vtcm_bytes, one->poison);
    for (uint32_t i = 0; i < views_of(one); i++)
        map_image(CASE_ADDRESS + i * one->window_bytes, one->part_bytes, PROT_READ | PROT_WRITE,
                  one->part_offset);
    return (uint8_t *)CASE_ADDRESS;
}

void close_case(const struct image_case *one) {
    for (uint32_t i = 0; i < views_of(one); i++)
        if (system_call(SYS_MUNMAP, CASE_ADDRESS + i * one->window_bytes, one->part_bytes, 0, 0, 0,
                        0) != 0)
            leave(103);
}

uint8_t *view_of(uint8_t *part, const struct image_case *one, uint32_t number) {
    return part + number * one->window_bytes;
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
