/* Start code for qemu-hexagon in user mode: a stack comes from QEMU, memory from .bss, two system
 * calls do the rest. Then it calls main(). */
#include "harness.h"
#include "simulator.h"

enum { SYS_WRITE = 64, SYS_EXIT_GROUP = 94, STANDARD_OUTPUT = 1 };
enum { ALIGNMENT_BYTES = 128, HEAP_BYTES = 256 << 20, VTCM_BYTES = HVXTUNE_VTCM_BYTES };

struct runtime runtime;

static struct image_report report;
static uint8_t heap[HEAP_BYTES] __attribute__((aligned(ALIGNMENT_BYTES)));
static uint8_t vtcm[VTCM_BYTES] __attribute__((aligned(ALIGNMENT_BYTES)));

/* Marks for the measuring simulator (harness.h); unused here. */
void hvxtune_loop_begins(void) {}
void hvxtune_task_begins(void) {}
void hvxtune_loop_ends(void) {}

static int32_t system_call(int32_t number, uint32_t a, uint32_t b, uint32_t c) {
    register uint32_t r0 __asm__("r0") = a;
    register uint32_t r1 __asm__("r1") = b;
    register uint32_t r2 __asm__("r2") = c;
    register int32_t r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r6) : "memory");
    return (int32_t)r0;
}

static __attribute__((noreturn)) void leave(int status) {
    for (;;)
        system_call(SYS_EXIT_GROUP, (uint32_t)status, 0, 0);
}

void simulator_print(const char *text) {
    uint32_t length = 0;
    while (text[length] != 0)
        length++;
    system_call(SYS_WRITE, STANDARD_OUTPUT, (uint32_t)(uintptr_t)text, length);
}

void simulator_print_number(uint32_t number) {
    char digits[11];
    char *first = digits + sizeof digits - 1;
    *first = 0;
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    simulator_print(first);
}

void simulator_fail(const char *text) {
    simulator_print(text);
    simulator_print("\n");
    leave(1);
}

/* Halide's name for it: headers of schedules print broken promises so. */
void halide_print(void *context, const char *text) {
    (void)context;
    simulator_print(text);
}

const char *simulator_halide_message(void) { return report.message; }

static __attribute__((noreturn, used)) void run_main(void) {
    runtime.report = &report;
    arena_open(&runtime.heap, heap, HEAP_BYTES, ALIGNMENT_BYTES);
    arena_open(&runtime.vtcm, vtcm, VTCM_BYTES, ALIGNMENT_BYTES);
    leave(main());
}

/* Vectors that are spilled need an aligned stack. */
__attribute__((naked, noreturn)) void _start(void) {
    __asm__ volatile("{ r29 = and(r29, #-128) }\n{ r30 = #0\n  jump run_main }");
}
