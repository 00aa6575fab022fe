/* The part of QEMU's plugin interface this plugin uses, the same in versions 1 to 4 of it.
 *
 * Declared here so that the plugin builds without QEMU's headers or glib
 * (docs.qemu.org, "QEMU TCG Plugins", API reference).
 */
#ifndef HVXTUNE_QEMU_API_H
#define HVXTUNE_QEMU_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

struct qemu_info {
    const char *target_name;
    struct {
        int min, cur;
    } version;
};

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_R = 1, QEMU_PLUGIN_MEM_W, QEMU_PLUGIN_MEM_RW };

typedef void (*simple_callback)(qemu_plugin_id_t);
typedef void (*tb_trans_callback)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*tb_exec_callback)(unsigned vcpu, void *data);
typedef void (*mem_callback)(unsigned vcpu, uint32_t info, uint64_t address, void *data);
typedef void (*syscall_callback)(qemu_plugin_id_t, unsigned vcpu, int64_t number, uint64_t a1,
                                 uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
                                 uint64_t a7, uint64_t a8);

void qemu_plugin_reset(qemu_plugin_id_t, simple_callback);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_trans_callback);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, tb_exec_callback,
                                          enum qemu_plugin_cb_flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, tb_exec_callback,
                                            enum qemu_plugin_cb_flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, mem_callback,
                                      enum qemu_plugin_cb_flags, enum qemu_plugin_mem_rw,
                                      void *data);
bool qemu_plugin_mem_is_store(uint32_t info);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, syscall_callback);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
char *qemu_plugin_insn_disas(const struct qemu_plugin_insn *); /* the caller frees it */

#endif
