/* The clock of the stand-in: packets executed, as QEMU counts them, times what the faults say.
 *
 * QEMU's user mode keeps the count in a control register of its own (target/hexagon/hex_regs.h:
 * HEX_REG_QEMU_PKT_CNT, 52, which is control register 20). It has 32 bits and never goes back, so
 * the clock is exact as long as it is read once in 2^32 packets.
 */
#include "loader.h"

enum { CYCLES_PER_US = 1000 }; /* a clock of 1 GHz */

static uint64_t packets, cycles;
static uint32_t last;

static uint32_t packet_count(void) {
    register uint32_t count __asm__("r0");
    __asm__ volatile(".word 0x6a14c000" : "=r"(count)); /* { r0 = c20 } */
    return count;
}

static uint64_t longer(uint64_t interval, uint64_t by_ppm) { return interval * by_ppm / 1000000; }

uint64_t pcycles(void) {
    uint32_t now = packet_count();
    uint64_t interval = longer(now - last, faults.cycles_ppm), extra = 0;
    packets += now - last;
    if (faults.noise_ppm)
        extra += longer(interval, random_below(faults.noise_ppm));
    if (faults.spike_ppm && random_below(8) == 0)
        extra += longer(interval, faults.spike_ppm);
    if (is_hot(packets))
        extra += longer(interval, faults.throttled_ppm);
    cycles += interval + extra;
    last = packet_count(); /* what this function took does not count */
    return cycles;
}

uint64_t time_us(void) { return pcycles() / CYCLES_PER_US; }
