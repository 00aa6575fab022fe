/* The harness as a program for qemu-hexagon: three system calls, and memory at fixed addresses.
 *
 * Everything lies where it lay in every other run, whatever arguments and environment the
 * process was given: a candidate's addresses, and so its cache behaviour, repeat exactly.
 */
#include <stddef.h>

#include "harness.h"

/* Addresses in the candidate's 32-bit space; tuner/measure/qemu/program.py knows them too. */
#define IMAGE_ADDRESS 0x20000000u
#define HEAP_ADDRESS 0x80000000u
#define VTCM_ADDRESS 0xd8000000u
#define STACK_ADDRESS 0xe0000000u /* nothing is mapped below it: running out traps */
#define STACK_BYTES 0x00100000u

enum { SYS_EXIT_GROUP = 94, SYS_MMAP = 222 };
enum { PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_FIXED = 16, MAP_ANONYMOUS = 32, MAP_NORESERVE = 0x4000 };
enum { IMAGE_DESCRIPTOR = 0 };

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

static void *map(uint32_t address, uint32_t bytes, int shared) {
    uint32_t flags = MAP_FIXED | (shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (bytes == 0)
        return NULL;
    int32_t got = system_call(SYS_MMAP, address, bytes, PROT_READ | PROT_WRITE, flags,
                              shared ? IMAGE_DESCRIPTOR : -1, 0);
    if ((uint32_t)got != address)
        leave(100);
    return (void *)address;
}

static __attribute__((noreturn, used)) void run_image(void) {
    struct image_header *image = map(IMAGE_ADDRESS, sizeof *image, 1);
    if (image->magic != IMAGE_MAGIC || image->version != IMAGE_VERSION)
        leave(101);
    map(IMAGE_ADDRESS, image->image_bytes, 1);
    leave(run_cases(image, map(HEAP_ADDRESS, image->heap_bytes, 0),
                    map(VTCM_ADDRESS, image->vtcm_bytes, 0)));
}

__attribute__((noreturn)) void hvxtune_start(void) {
    uint8_t *stack = map(STACK_ADDRESS, STACK_BYTES, 0);
    __asm__ volatile("{ r29 = %0\n  r30 = #0\n  jump run_image }" : : "r"(stack + STACK_BYTES));
    __builtin_unreachable();
}
