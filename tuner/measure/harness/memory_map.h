/* Where everything lies in the candidate's 32-bit space; C and assembly include this.
 *
 * All addresses are fixed: whatever arguments and environment the process was given, a
 * candidate's addresses, and so its cache behaviour, repeat exactly. Below IMAGE_ADDRESS lies the
 * program (program.ld). tuner/measure/qemu/simulation.py knows these addresses too.
 */
#ifndef HVXTUNE_MEMORY_MAP_H
#define HVXTUNE_MEMORY_MAP_H

#define IMAGE_ADDRESS 0x20000000 /* tables, which cannot be written to, and the report */
#define CASE_ADDRESS 0x30000000  /* views of the case under way: every case lies here in turn */
#define HEAP_ADDRESS 0x80000000
#define VTCM_ADDRESS 0xd8000000
#define STACK_ADDRESS 0xe0000000 /* of the candidate; nothing is mapped below: running out traps */
#define STACK_BYTES 0x00100000
#define HARNESS_ADDRESS 0xe8000000 /* stack of the harness: closed while the candidate runs */
#define HARNESS_BYTES 0x00010000

/* The file of poison, descriptor 1, holds both patterns one behind the other. */
#define POISON_DESCRIPTOR 1
#define POISON_BYTES 0x01000000 /* of one pattern; it is repeated where memory is larger */

#endif
