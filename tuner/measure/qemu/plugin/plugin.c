/* QEMU plugin: counts and times the packets of the candidate's calls, and ends runs that leave
 * their bounds. The launcher's orders and the results are in shared memory (session.h).
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accesses.h"
#include "blocks.h"
#include "bounds.h"
#include "prefetches.h"
#include "qemu_api.h"
#include "sandbox.h"
#include "session.h"
#include "timing.h"

/* System calls of the harness (linux_user.c, call.S), which makes them outside of calls. Only an
 * image of a network reads and writes. */
enum { HEXAGON_EXIT_GROUP = 94, HEXAGON_MUNMAP = 215, HEXAGON_MMAP = 222, HEXAGON_MPROTECT = 226 };
enum { HEXAGON_READ = 63, HEXAGON_WRITE = 64 };

/* Fewer than a call takes for whose code a second translation, 2 ms or so, pays (measured). */
#define PACKETS_WORTH_TRANSLATING 20000

QEMU_EXPORT int qemu_plugin_version = 1;

static struct session *session;
static qemu_plugin_id_t plugin;
static bool in_call, in_followed_call;
static uint32_t came_from; /* block before the one under way */
static uint64_t limit; /* most packets of a call that is not followed */

/* Interface version 1 was dropped when scoreboards came; 2 is understood ever since. */
__attribute__((constructor)) static void choose_interface(void) {
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_scoreboard_new") != NULL)
        qemu_plugin_version = 2;
}

static void register_callbacks(void);

/* Memory costs are modelled in the calls that are followed; watched ones are checked only. */
static void follow(bool followed, bool watched) {
    in_followed_call = followed;
    accesses_follow(followed || watched, followed);
    prefetches_follow(followed);
}

static bool serves(void) { return (session->orders.flags & SESSION_SERVES) != 0; }

static bool is_watched(uint32_t call) { return call <= session->bounds.calls; }

static void call_begins(unsigned vcpu, void *data) {
    (void)vcpu, (void)data;
    struct results *results = &session->results;
    const struct orders *orders = &session->orders;
    if (in_call)
        end_run(SESSION_STRAY);
    in_call = true;
    results->calls++;
    results->untimed_packets = 0;
    limit = orders->untimed_factor * results->packets + orders->untimed_slack;
    bounds_call_begins(results->calls);
    follow(timing_follows(results->calls), is_watched(results->calls));
    if (in_followed_call)
        timing_call_begins();
}

/* The last call whose accesses QEMU has to report. */
static uint32_t last_told_of(void) {
    uint32_t timed = session->orders.timed_call, watched = session->bounds.calls;
    if (serves())
        return UINT32_MAX;
    return timed > watched ? timed : watched;
}

static void callbacks_dropped(qemu_plugin_id_t id) {
    (void)id;
    register_callbacks();
}

/* Practice and timed call get the same inputs at the same addresses, so that they take the same
 * way. One that takes a shorter way has kept what it worked out before the clock ran. */
static void compare_with_practice(void) {
    static uint64_t packets, cycles;
    const struct results *results = &session->results;
    bool practiced = packets != 0;
    if (practiced && (packets != results->packets || cycles != results->cycles))
        end_run(SESSION_UNSTEADY);
    packets = results->packets;
    cycles = results->cycles;
}

static void call_ends(unsigned vcpu, void *data) {
    (void)vcpu, (void)data;
    if (!in_call)
        end_run(SESSION_STRAY);
    in_call = false;
    if (in_followed_call && !serves())
        compare_with_practice();
    follow(false, false);
    /* No need to be told of accesses any more: have the code translated anew, without. Where calls
     * are short that takes longer than being told. */
    if ((session->orders.flags & SESSION_MODEL_MEMORY) &&
        session->results.calls == last_told_of() &&
        session->results.packets > PACKETS_WORTH_TRANSLATING)
        qemu_plugin_reset(plugin, callbacks_dropped);
}

static void block_entered(unsigned vcpu, void *data) {
    (void)vcpu;
    struct known_block *block = data;
    struct results *results = &session->results;
    came_from = results->address;
    results->address = block->address;
    if (!in_call) {
        if (block->address >= session->orders.candidate_begin)
            end_run(SESSION_STRAY);
    } else if (in_followed_call) {
        timing_block_entered(block);
    } else {
        results->untimed_packets += block->packets;
        if (results->untimed_packets > limit)
            end_run(SESSION_RUNAWAY);
    }
}

static void mark_reached(unsigned vcpu, void *data) {
    (void)vcpu;
    /* A candidate that sets them itself would pass serial work off as parallel. */
    if (in_call && came_from >= session->orders.candidate_begin)
        end_run(SESSION_STRAY);
    if (in_followed_call)
        timing_mark((uint32_t)(uintptr_t)data);
}

static struct known_block *describe(const struct qemu_plugin_tb *tb, uint32_t address,
                                    uint32_t count) {
    char *texts[count];
    uint32_t addresses[count];
    for (uint32_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        addresses[i] = (uint32_t)qemu_plugin_insn_vaddr(insn);
        texts[i] = qemu_plugin_insn_disas(insn);
    }
    struct known_block *block = blocks_add(address, count, addresses, texts);
    for (uint32_t i = 0; i < count; i++)
        free(texts[i]);
    return block;
}

/* With the first block the program is loaded, and nothing of it has run yet. */
static void close_sandbox_once(void) {
    static bool closed;
    if (!closed) {
        closed = true;
        sandbox_close(serves());
        session->results.sandbox_layers = sandbox_layers();
    }
}

static void block_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    close_sandbox_once();
    uint32_t address = (uint32_t)qemu_plugin_tb_vaddr(tb);
    uint32_t count = (uint32_t)qemu_plugin_tb_n_insns(tb);
    const struct orders *orders = &session->orders;
    if (address >= orders->candidate_end) {
        session->results.address = address;
        end_run(SESSION_NOT_CODE); /* what is known of a block would not hold where code can change */
    }
    tb_exec_callback callback = block_entered;
    struct known_block *block = NULL;
    if (address == orders->window_begin)
        callback = call_begins;
    else if (address == orders->window_end)
        callback = call_ends;
    else if ((block = blocks_find(address, count)) == NULL)
        block = describe(tb, address, count);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, QEMU_PLUGIN_CB_NO_REGS, block);
    uint32_t mark = (address - orders->marks_begin) / 4;
    if (mark < TIMING_MARKS)
        qemu_plugin_register_vcpu_tb_exec_cb(tb, mark_reached, QEMU_PLUGIN_CB_NO_REGS,
                                             (void *)(uintptr_t)mark);
    if (!(orders->flags & SESSION_MODEL_MEMORY) || session->results.calls > last_told_of())
        return;
    if (address == orders->window_begin)
        prefetches_find_registers(tb);
    if (block != NULL)
        accesses_watch(tb, block);
}

/* Called before QEMU acts on a system call. */
static void system_call(qemu_plugin_id_t id, unsigned vcpu, int64_t number, uint64_t a1,
                        uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                        uint64_t a7, uint64_t a8) {
    (void)id, (void)vcpu, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7;
    (void)a8;
    bool of_harness = number == HEXAGON_MMAP || number == HEXAGON_MUNMAP ||
                      number == HEXAGON_MPROTECT || number == HEXAGON_EXIT_GROUP ||
                      (serves() && (number == HEXAGON_READ || number == HEXAGON_WRITE));
    if (in_call || !of_harness) {
        session->results.system_call = number;
        end_run(SESSION_SYSTEM_CALL);
    }
    if (number == HEXAGON_EXIT_GROUP)
        session->results.state = SESSION_FINISHED;
}

static void register_callbacks(void) {
    qemu_plugin_register_vcpu_tb_trans_cb(plugin, block_translated);
    qemu_plugin_register_vcpu_syscall_cb(plugin, system_call);
}

static struct session *map_session(int descriptor) {
    struct session *mapped =
        mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (mapped == MAP_FAILED)
        return NULL;
    bool fits = mapped->orders.magic == SESSION_MAGIC && mapped->orders.version == SESSION_VERSION;
    fits = fits && mapped->orders.rule_count <= SESSION_RULES;
    return fits && mapped->bounds.calls <= SESSION_WATCHED_CALLS ? mapped : NULL;
}

static void bound_process(const struct orders *orders) {
    struct sandbox_limits limits = {orders->cpu_seconds, orders->address_space_bytes,
                                    orders->output_bytes};
    sandbox_bound(&limits, orders->launcher);
}

QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int count,
                                    char **arguments) {
    static const char option[] = "session=";
    if (count != 1 || strncmp(arguments[0], option, sizeof option - 1) != 0 ||
        strcmp(info->target_name, "hexagon") != 0)
        return 1;
    session = map_session(atoi(arguments[0] + sizeof option - 1));
    if (session == NULL)
        return 1;
    bound_process(&session->orders);
    plugin = id;
    blocks_open(session);
    bounds_open(session);
    accesses_open(session);
    prefetches_open(session);
    if (!timing_open(session))
        return 1;
    register_callbacks();
    session->results.state = SESSION_LOADED;
    return 0;
}
