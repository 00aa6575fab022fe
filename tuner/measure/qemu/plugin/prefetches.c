#include "prefetches.h"

#include <stdbool.h>
#include <stdlib.h>

#include "blocks.h"
#include "caches.h"
#include "timing.h"

enum { SP = 29, FP = 30 };

struct site {
    const struct prefetch *prefetch;
    struct packet_record *packet;
    uint32_t number;
};

/* The plugin interface of QEMU 7.2 shows no registers. But translated code keeps the address of
 * the simulated processor in one register of the host (TCG_AREG0 of tcg-target.h) while it calls
 * plugins, and QEMU's structure for a Hexagon processor begins with r0 to r31 (target/hexagon/
 * cpu.h), which are written back before callbacks that ask for registers. Before they are used it
 * is checked that r29 and r30 hold what the harness puts there. */
#if defined(__x86_64__)
#define CALL_WITH_REGISTERS(name, handler)                                                        \
    __attribute__((naked)) static void name(unsigned vcpu, void *data) {                          \
        __asm__("movq %rbp, %rdx\n\tjmp " #handler);                                              \
    }
#elif defined(__aarch64__)
#define CALL_WITH_REGISTERS(name, handler)                                                        \
    __attribute__((naked)) static void name(unsigned vcpu, void *data) {                          \
        __asm__("mov x2, x19\n\tb " #handler);                                                    \
    }
#else
#define CALL_WITH_REGISTERS(name, handler)                                                        \
    static void name(unsigned vcpu, void *data) { handler(vcpu, data, NULL); }
#endif

static struct session *session;
static bool following, readable;

void prefetches_open(struct session *opened) { session = opened; }
void prefetches_follow(bool follow) { following = follow; }

__attribute__((used)) void look_for_registers(unsigned vcpu, void *data, const uint32_t *registers);
__attribute__((used)) void carry_out(unsigned vcpu, void *data, const uint32_t *registers);

void look_for_registers(unsigned vcpu, void *data, const uint32_t *registers) {
    (void)vcpu, (void)data;
    const struct orders *orders = &session->orders;
    readable = registers != NULL && registers[SP] % 8 == 0 && registers[FP] == 0 &&
               registers[SP] - orders->stack_begin < orders->stack_bytes;
}

/* The box is height, width in bytes and stride of its rows: 16 bits each in a pair, from low to
 * high; 8, 8 and 16 bits in a single register (V66 PRM, l2fetch). */
void carry_out(unsigned vcpu, void *data, const uint32_t *registers) {
    (void)vcpu;
    const struct site *site = data;
    const struct prefetch *prefetch = site->prefetch;
    if (!following)
        return;
    if (!readable)
        end_run(SESSION_HIDDEN);
    struct moment at = {timing_clock(site->number), site->packet};
    uint32_t base = registers[prefetch->base];
    uint32_t box = registers[prefetch->box];
    if (!prefetch->is_box)
        prefetch_line(at, base + (uint32_t)prefetch->offset);
    else if (prefetch->is_pair)
        prefetch_box(at, base, box >> 16, box & 0xffff, registers[prefetch->box + 1] & 0xffff);
    else
        prefetch_box(at, base, box >> 8 & 0xff, box & 0xff, box >> 16);
}

CALL_WITH_REGISTERS(call_reached, look_for_registers)
CALL_WITH_REGISTERS(prefetch_reached, carry_out)

void prefetches_find_registers(struct qemu_plugin_tb *tb) {
    qemu_plugin_register_vcpu_tb_exec_cb(tb, call_reached, QEMU_PLUGIN_CB_R_REGS, NULL);
}

void prefetches_watch(struct qemu_plugin_insn *insn, const struct prefetch *prefetch,
                      struct packet_record *packet, uint32_t number) {
    struct site *site = malloc(sizeof *site);
    if (site == NULL)
        end_run(SESSION_TABLE_FULL);
    *site = (struct site){prefetch, packet, number};
    qemu_plugin_register_vcpu_insn_exec_cb(insn, prefetch_reached, QEMU_PLUGIN_CB_R_REGS, site);
}
