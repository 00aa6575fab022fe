/* What kind of work an instruction does, told from its disassembly. */
#ifndef HVXTUNE_TRAITS_H
#define HVXTUNE_TRAITS_H

#include "packet.h"

/* The traits (enum trait) of the instruction in [text, end), but for TRAIT_VECTOR. Fills
 * `prefetch` if it is one. */
uint16_t instruction_traits(const char *text, const char *end, struct prefetch *prefetch);

#endif
