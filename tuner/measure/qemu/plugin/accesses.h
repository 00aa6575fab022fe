/* Memory accesses of the packets that are followed: QEMU's callbacks, put together to whole
 * accesses, checked against the buffers' bounds and handed on to the caches.
 */
#ifndef HVXTUNE_ACCESSES_H
#define HVXTUNE_ACCESSES_H

#include <stdbool.h>

#include "blocks.h"
#include "qemu_api.h"

void accesses_open(struct session *session);

/* Asks QEMU to report the accesses and prefetches of `block`, which it is translating as `tb`. */
void accesses_watch(struct qemu_plugin_tb *tb, struct known_block *block);

/* Whether what comes is checked, and whether it is handed on. Ends what is under way. */
void accesses_follow(bool check, bool follow);

#endif
