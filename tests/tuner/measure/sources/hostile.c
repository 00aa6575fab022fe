/* The kernel scale_u8 (tests/rig), out = in + 1, by candidates that try to break out of a run, or
 * to have a wrong number stored. Each does what ATTACK names, with the system call NUMBER or the
 * file PATH where it needs one.
 */
#include "halide_buffer.h"

enum attack {
    NONE,
    SYSTEM_CALL,
    OPENS_A_FILE,
    KILLS_ITS_PARENT,
    WRITES_TO_EVERY_DESCRIPTOR,
    CLOSES_EVERY_DESCRIPTOR,
    CATCHES_SIGNALS,
    SPINS,
    SPINS_IN_HARDWARE,
    WRITES_AT,
    READS_AT,
    JUMPS_TO,
    JUMPS_TO_DATA,
    CALLS_RUN_CASES,
    CALLS_THE_START,
    CALLS_A_MARK,
    FORGES_THE_REPORT,
    RETURNS_AT_ONCE,
    LEAVES_REGISTERS_IN_DISORDER,
    PUTS_WORK_OFF,
    REMEMBERS,
    WORKS_AHEAD,
    FREES_WHAT_IT_NEVER_HAD,
    FILLS_ALL_MEMORY,
    TALKS_TO_THE_TERMINAL,
    TALKS_WITHOUT_END,
};

#ifndef NUMBER
#define NUMBER 0
#endif
#ifndef PATH
#define PATH "/nowhere"
#endif

enum { AT_FDCWD = -100 };

void halide_error(void *, const char *);
void halide_free(void *, void *);
int run_cases(void *, void *, void *);
void hvxtune_start(void);
void hvxtune_loop_begins(void);

static int system_call(int number, uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t e,
                       uint32_t f) {
    register uint32_t r0 __asm__("r0") = a;
    register uint32_t r1 __asm__("r1") = b;
    register uint32_t r2 __asm__("r2") = c;
    register uint32_t r3 __asm__("r3") = d;
    register uint32_t r4 __asm__("r4") = e;
    register uint32_t r5 __asm__("r5") = f;
    register int r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)"
                     : "+r"(r0)
                     : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6)
                     : "memory");
    return (int)r0;
}

static void scale(struct buffer *in, struct buffer *out) {
    for (int y = 0; y < in->dim[1].extent; y++)
        for (int x = 0; x < in->dim[0].extent; x++)
            out->host[y * out->dim[1].stride + x] =
                (uint8_t)(in->host[y * in->dim[1].stride + x] + 1);
}

static uint32_t code_in_data[] = {0x529fc000}; /* jumpr r31 */
static volatile uint32_t sink;
static uint8_t kept[4096];

/* Comes back with every register the calling convention keeps for the caller overwritten, through
 * a jump of its own, with a stack and a frame where there is none. */
static __attribute__((noreturn)) void leave_in_disorder(void) {
    __asm__ volatile("{ r0 = #0 ; r1 = ##0xdeadbeef }\n"
                     "{ r16 = r1 ; r17 = r1 ; r18 = r1 ; r19 = r1 }\n"
                     "{ r20 = r1 ; r21 = r1 ; r22 = r1 ; r23 = r1 }\n"
                     "{ r24 = r1 ; r25 = r1 ; r26 = r1 ; r27 = r1 }\n"
                     "{ r29 = r1 ; r30 = r1 ; r31 = r1 }\n"
                     "{ usr = r1 }\n"
                     "{ gp = r1 }\n"
                     "{ lc0 = r1 }\n"
                     "{ sa0 = r1 }\n"
                     "{ lc1 = r1 }\n"
                     "{ sa1 = r1 }\n"
                     "{ r3 = r1 ; r2 = r1 }\n"
                     "{ c17:16 = r3:2 }\n" /* keys and limits of stack frames */
                     "{ r1 = ##0x10004 }\n"
                     "{ jumpr r1 }\n");
    __builtin_unreachable();
}

int ENTRY(struct buffer *in, struct buffer *out) {
    static struct buffer *first_out;
    static uint8_t *first_host;
    static int calls;
    uint32_t *at = (uint32_t *)NUMBER;
    calls++;
    switch (ATTACK) {
    case NONE: break;
    case SYSTEM_CALL: system_call(NUMBER, 0, 0, 0, 0, 0, 0); break;
    case OPENS_A_FILE: system_call(56, AT_FDCWD, (uint32_t)PATH, 0x42, 0600, 0, 0); break;
    case KILLS_ITS_PARENT: {
        uint32_t parent = (uint32_t)system_call(173, 0, 0, 0, 0, 0, 0);
        system_call(129, parent, 9, 0, 0, 0, 0);
        break;
    }
    case WRITES_TO_EVERY_DESCRIPTOR:
        for (uint32_t fd = 0; fd < 64; fd++)
            system_call(64, fd, (uint32_t)PATH, sizeof PATH, 0, 0, 0);
        break;
    case CLOSES_EVERY_DESCRIPTOR:
        for (uint32_t fd = 0; fd < 64; fd++)
            system_call(57, fd, 0, 0, 0, 0, 0);
        break;
    case CATCHES_SIGNALS: {
        uint32_t action[4] = {(uint32_t)ENTRY, 0, 0, 0};
        system_call(134, 11, (uint32_t)action, 0, 8, 0, 0);
        *(volatile uint32_t *)0 = 1;
        break;
    }
    case SPINS:
        for (;;)
            sink++;
    case SPINS_IN_HARDWARE: __asm__ volatile("1: { jump 1b }"); break;
    case WRITES_AT: *(volatile uint32_t *)at = 0; break;
    case READS_AT: sink = *(volatile uint32_t *)at; break;
    case JUMPS_TO: __asm__ volatile("{ jumpr %0 }" : : "r"(at)); break;
    case JUMPS_TO_DATA: ((void (*)(void))code_in_data)(); break;
    case CALLS_RUN_CASES: return run_cases((void *)0x20000000, 0, 0);
    case CALLS_THE_START: hvxtune_start(); break;
    case CALLS_A_MARK: hvxtune_loop_begins(); break;
    case FORGES_THE_REPORT:
        for (uint32_t word = 0; word < 60; word++)
            ((volatile uint32_t *)0x20010000)[word] = 0x41414141;
        return 0;
    case RETURNS_AT_ONCE: return 0;
    case LEAVES_REGISTERS_IN_DISORDER: scale(in, out); leave_in_disorder();
    case PUTS_WORK_OFF: /* practice and timed call do nothing; the next does their work as well */
        if (calls <= 2) {
            first_out = out;
            first_host = out->host;
            for (int i = 0; i < in->dim[0].extent; i++)
                kept[i] = in->host[i];
            return 0;
        }
        for (int i = 0; i < in->dim[0].extent; i++)
            first_host[i] = kept[i] + 1;
        break;
    case REMEMBERS: /* a second call on the same inputs gives back what the first one found */
        if (calls == 1)
            scale(in, out);
        for (int i = 0; i < 4 * 500; i += 4)
            if (calls == 1)
                *(uint32_t *)(kept + i) = *(uint32_t *)(out->host + i);
            else
                *(uint32_t *)(out->host + i) = *(uint32_t *)(kept + i);
        if (calls <= 2)
            return 0;
        break;
    case WORKS_AHEAD: /* writes where the buffers of later cases would lie behind its own */
        for (uint32_t *word = (uint32_t *)out->host; word < (uint32_t *)0x80000000; word += 16384)
            sink += (*(volatile uint32_t *)word = 7);
        break;
    case FREES_WHAT_IT_NEVER_HAD: halide_free(0, (void *)12); break;
    case FILLS_ALL_MEMORY:
        for (uint32_t page = 0x80000000; page != 0; page += 4096)
            *(volatile uint32_t *)page = 1;
        break;
    case TALKS_TO_THE_TERMINAL: halide_error(0, "\033[2J\033]0;owned\007\rok\n\x9b"); return -1;
    case TALKS_WITHOUT_END:
        for (int i = 0; i < 100000; i++)
            halide_error(0, "more and more and more and more and more and more and more");
        return -1;
    }
    (void)first_out;
    scale(in, out);
    return 0;
}
