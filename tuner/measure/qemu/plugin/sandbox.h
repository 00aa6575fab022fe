/* Keeps the simulating process, should a candidate take it over, from touching the machine.
 *
 * The plugin already ends a run at the first system call of a candidate (plugin.c). What is here
 * holds where QEMU itself is broken. Every layer that the kernel or the container refuses is left
 * out, and told: measurements do not depend on any.
 */
#ifndef HVXTUNE_SANDBOX_H
#define HVXTUNE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Layers in place; tuner/measure/qemu/device.py names them. */
enum sandbox_layer {
    SANDBOX_LIMITS = 1 << 0,       /* resource limits: memory, CPU, files, processes */
    SANDBOX_NO_NETWORK = 1 << 1,   /* a network namespace without interfaces */
    SANDBOX_NO_PRIVILEGES = 1 << 2, /* another user's or none of root's powers, and none to gain */
    SANDBOX_EMPTY_ROOT = 1 << 3,   /* the root directory is one without files */
    SANDBOX_LANDLOCK = 1 << 4,     /* no file can be opened, no socket connected */
    SANDBOX_SECCOMP = 1 << 5,      /* only system calls that simulating needs */
};

struct sandbox_limits {
    uint64_t cpu_seconds, address_space_bytes, output_bytes;
};

/* Bounds what the process may use; it dies with its launcher. */
void sandbox_bound(const struct sandbox_limits *limits, uint32_t launcher);

/* Closes everything the process no longer needs once its program is loaded. One that takes
 * `messages` keeps standard input and output. */
void sandbox_close(bool messages);

/* The layers in place, of enum sandbox_layer. */
uint32_t sandbox_layers(void);

#endif
