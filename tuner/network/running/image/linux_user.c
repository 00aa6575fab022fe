/* The image as a program for qemu-hexagon, as harness/linux_user.c has candidates: requests come
 * by standard input, answers go to standard output. */
#include <stddef.h>

#include "../../../measure/harness/harness.h"
#include "../../../measure/harness/memory_map.h"
#include "../../../measure/harness/system_call.h"
#include "serve.h"

/* Of the target; made with the table of functions. */
extern const uint32_t serve_alignment_bytes, serve_vtcm_bytes;

enum { SYS_READ = 63, SYS_WRITE = 64 };
enum { STANDARD_INPUT = 0, STANDARD_OUTPUT = 1 };
/* Of what functions allocate during a call, as in a measurement (HEAP_BYTES of image.py); of
 * buffers. Neither takes memory that is not touched. */
enum { HEAP_BYTES = 1 << 28, ARENA_BYTES = 1 << 30 };

struct runtime runtime;
static struct image_report report;
int (*hvxtune_function)(void); /* call.S calls it */

int serve_receive(void *to, uint32_t bytes) {
    for (uint8_t *at = to; bytes > 0;) {
        int32_t moved = system_call(SYS_READ, STANDARD_INPUT, (uint32_t)at, bytes, 0, 0, 0);
        if (moved <= 0)
            return 1;
        at += moved;
        bytes -= (uint32_t)moved;
    }
    return 0;
}

int serve_send(const void *from, uint32_t bytes) {
    for (const uint8_t *at = from; bytes > 0;) {
        int32_t moved = system_call(SYS_WRITE, STANDARD_OUTPUT, (uint32_t)at, bytes, 0, 0, 0);
        if (moved <= 0)
            return 1;
        at += moved;
        bytes -= (uint32_t)moved;
    }
    return 0;
}

/* One l2fetch of rows without gaps, as many as its box has room for, then the call: fetch.S. */
enum { ROW_BYTES = 128, MOST_ROWS = 0xffff };
struct fetched {
    uint16_t rows, row_bytes, stride, zero;
    const uint8_t *begin;
    int (*function)(void);
} hvxtune_fetched __attribute__((aligned(8))); /* its box is read at once */
int hvxtune_fetch_and_call(void);

int serve_call(int (*function)(void), void *const *pointers, uint32_t count,
               struct serve_fetch fetch) {
    uint32_t rows = (fetch.bytes + ROW_BYTES - 1) / ROW_BYTES;
    report = (struct image_report){0};
    runtime.report = &report;
    arena_open(&runtime.heap, (void *)HEAP_ADDRESS, HEAP_BYTES, serve_alignment_bytes);
    arena_open(&runtime.vtcm, (void *)VTCM_ADDRESS, serve_vtcm_bytes, serve_alignment_bytes);
    hvxtune_fetched = (struct fetched){
        .rows = (uint16_t)(rows < MOST_ROWS ? rows : MOST_ROWS),
        .row_bytes = ROW_BYTES,
        .stride = ROW_BYTES,
        .begin = fetch.begin,
        .function = function,
    };
    hvxtune_function = rows > 0 ? hvxtune_fetch_and_call : function;
    return call_candidate(pointers, count);
}

static void *map_anonymous(uint32_t address, uint32_t bytes) {
    return map(address, bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static __attribute__((noreturn, used)) void serve(void) {
    map_anonymous(STACK_ADDRESS, STACK_BYTES);
    map_anonymous(HEAP_ADDRESS, HEAP_BYTES);
    map_anonymous(VTCM_ADDRESS, serve_vtcm_bytes);
    serve_open(map_anonymous(CASE_ADDRESS, ARENA_BYTES), ARENA_BYTES, serve_alignment_bytes);
    while (serve_request() == 0)
        ;
    leave(0);
}

__attribute__((noreturn)) void hvxtune_start(void) {
    uint8_t *stack = map_anonymous(HARNESS_ADDRESS, HARNESS_BYTES);
    __asm__ volatile("{ r29 = %0\n  r30 = #0\n  jump serve }" : : "r"(stack + HARNESS_BYTES));
    __builtin_unreachable();
}
