/* What a program for qemu-hexagon finds in place of a system. */
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

/* What Halide's runtime had to say of the last call that failed; empty if nothing. */
const char *simulator_halide_message(void);

#ifdef __cplusplus
}
#endif

#endif
