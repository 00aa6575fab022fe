/* Stands in for an operating system in programs for qemu-hexagon. */
#ifndef HVXTUNE_SIMULATOR_H
#define HVXTUNE_SIMULATOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The program's. Declared here, because freestanding C++ gives it no name of C by itself. */
int main(void);

/* Text and numbers on standard output. */
void simulator_print(const char *text);
void simulator_print_number(uint32_t number);

/* Prints `text` and ends the program with status 1. */
__attribute__((noreturn)) void simulator_fail(const char *text);

/* The message of Halide's runtime on the last call that failed; empty if none. */
const char *simulator_halide_message(void);

#ifdef __cplusplus
}
#endif

#endif
