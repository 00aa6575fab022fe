/* System calls of Linux on Hexagon: memory, and the end. */
#ifndef HVXTUNE_SYSTEM_CALL_H
#define HVXTUNE_SYSTEM_CALL_H

#include <stddef.h>
#include <stdint.h>

/* The plugin lets these through outside of calls (plugin/plugin.c); call.S makes the fourth. */
enum { SYS_EXIT_GROUP = 94, SYS_MUNMAP = 215, SYS_MMAP = 222 };
enum { PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_FIXED = 16, MAP_ANONYMOUS = 32, MAP_NORESERVE = 0x4000 };
enum { MMAP_UNIT_BYTES = 4096 }; /* mmap counts offsets in these */

static inline int32_t system_call(int32_t number, uint32_t a, uint32_t b, uint32_t c, uint32_t d,
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

static inline __attribute__((noreturn)) void leave(int status) {
    for (;;)
        system_call(SYS_EXIT_GROUP, (uint32_t)status, 0, 0, 0, 0, 0);
}

static inline void *map(uint32_t address, uint32_t bytes, uint32_t protection, uint32_t flags,
                        int32_t descriptor, uint32_t offset) {
    if (bytes == 0)
        return NULL;
    int32_t got = system_call(SYS_MMAP, address, bytes, protection, flags | MAP_FIXED, descriptor,
                              offset / MMAP_UNIT_BYTES);
    if ((uint32_t)got != address)
        leave(100);
    return (void *)address;
}

#endif
