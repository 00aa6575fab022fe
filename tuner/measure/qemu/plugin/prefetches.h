/* l2fetch and dcfetch. QEMU executes them as nothing at all, so what they ask for is read from the
 * simulated registers.
 */
#ifndef HVXTUNE_PREFETCHES_H
#define HVXTUNE_PREFETCHES_H

#include "qemu_api.h"
#include "session.h"

void prefetches_open(struct session *session);

/* Has the registers looked for when `tb`, the call of the candidate, is executed. */
void prefetches_find_registers(struct qemu_plugin_tb *tb);

/* Has `prefetch` carried out when `insn`, packet `number` of its block, is executed. */
void prefetches_watch(struct qemu_plugin_insn *insn, const struct prefetch *prefetch,
                      struct packet_record *packet, uint32_t number);

/* Whether prefetches that come are carried out. */
void prefetches_follow(bool follow);

#endif
