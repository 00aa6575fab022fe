// The call of the candidate, and the two addresses between which packets count.
//
// The linker puts the section .hvxtune.window at an address the simulator knows: its first packet
// opens the region of interest, the packet the candidate returns to closes it.
//
// The candidate runs on a stack of its own while that of the harness, where all it knows lies, is
// closed to every access. Once it has returned, nothing is taken from its registers but the
// result, and nothing from memory it could write to: it cannot lead the harness astray.

#include "memory_map.h"

#define SYS_EXIT_GROUP 94
#define SYS_MPROTECT 226
#define CLOSED 0
#define READABLE_AND_WRITABLE 3
#define STATUS_NO_PROTECTION 102
#define ARGUMENT_BYTES 40 /* MAX_ARGUMENTS less the six that travel in registers */

    .section .hvxtune.window, "ax", @progbits
    .p2align 2
    .globl hvxtune_window_begin, hvxtune_window_end
hvxtune_window_begin:
#ifdef CALL_BY_ADDRESS // of many functions in one program (tuner/network/running/image)
    { callr r28 }
#else
    { call hvxtune_entry }
#endif
hvxtune_window_end:
    { jump .Lreturned }

// Marks of parallel loops (harness.h), which the simulator watches.
    .globl hvxtune_loop_begins, hvxtune_task_begins, hvxtune_loop_ends
hvxtune_loop_begins:
    { jumpr r31 }
hvxtune_task_begins:
    { jumpr r31 }
hvxtune_loop_ends:
    { jumpr r31 }

// int call_candidate(void *const *arguments, uint32_t count)
// Six arguments travel in r0 to r5, the others on the stack (Hexagon ABI, argument passing).
    .text
    .globl call_candidate
    .type call_candidate, @function
    .p2align 4
call_candidate:
    { r29 = add(r29, #-56) }
    { memd(r29 + #0) = r17:16
      memd(r29 + #8) = r19:18 }
    { memd(r29 + #16) = r21:20
      memd(r29 + #24) = r23:22 }
    { memd(r29 + #32) = r25:24
      memd(r29 + #40) = r27:26 }
    { memd(r29 + #48) = r31:30
      r16 = r0
      r3 = usr }
    { r17 = ##HARNESS_ADDRESS
      r4 = gp }
    { memw(r17 + #0) = r29
      memw(r17 + #4) = r3 }
    { memw(r17 + #8) = r4 }
    { r29 = ##(STACK_ADDRESS + STACK_BYTES - ARGUMENT_BYTES)
      r2 = add(r0, #24)
      r3 = add(r1, #-6) }
    { r4 = r29
      p0 = cmp.gt(r3, #0)
      if (!p0.new) jump:nt .Lclose }
    { loop0(.Lstack, r3) }
    .p2align 4
.Lstack:
    { r5 = memw(r2++#4) }
    { memw(r4++#4) = r5 } :endloop0
.Lclose:
    { r0 = r17
      r1 = ##HARNESS_BYTES }
    { r2 = #CLOSED
      r6 = #SYS_MPROTECT }
    { trap0(#1) }
    { p0 = cmp.eq(r0, #0)
      if (!p0.new) jump:nt .Lfailed }
    { r1:0 = memd(r16 + #0)
      r3:2 = memd(r16 + #8) }
    { r5:4 = memd(r16 + #16)
      r30 = #0 }
    // What carries no argument holds poison, which the bottom of the stack is full of.
    { r28 = ##STACK_ADDRESS
      r6 = ##0x01010101 }
    // Vectors as words: to let the assembler know them would align the loops of C otherwise, and
    // change the packets of what candidates call.
    .set vector, 0
    .rept 32
    .word 0x291cc100 + vector // { vN = vmem(r28++#1) }
    .set vector, vector + 1
    .endr
    .set predicate, 0
    .rept 4
    .word 0x19a6c048 + 0x101 * predicate // { qN = vand(vN, r6) }
    .set predicate, predicate + 1
    .endr
    { r7:6 = memd(r28 + #0)
      r9:8 = memd(r28 + #8) }
    { r11:10 = memd(r28 + #16)
      r13:12 = memd(r28 + #24) }
    { r15:14 = memd(r28 + #32)
      r17:16 = memd(r28 + #40) }
    { r19:18 = memd(r28 + #48)
      r21:20 = memd(r28 + #56) }
    { r23:22 = memd(r28 + #64)
      r25:24 = memd(r28 + #72) }
    { r27:26 = memd(r28 + #80)
      r28 = memw(r28 + #88) }
    { p3:0 = r6 }
    { m0 = r8 }
    { m1 = r9 }
#ifdef CALL_BY_ADDRESS
    { r28 = memw(##hvxtune_function) }
#endif
    { jump hvxtune_window_begin }

.Lreturned:
    { r16 = r0
      r0 = ##HARNESS_ADDRESS }
    { r1 = ##HARNESS_BYTES
      r2 = #READABLE_AND_WRITABLE
      r6 = #SYS_MPROTECT }
    { trap0(#1) }
    { p0 = cmp.eq(r0, #0)
      if (!p0.new) jump:nt .Lfailed }
    { r17 = ##HARNESS_ADDRESS
      r3:2 = combine(#0, #0) }
    { r29 = memw(r17 + #0)
      r4 = memw(r17 + #4) }
    { usr = r4
      r5 = memw(r17 + #8) }
    // Addresses of variables are relative to GP; the frame key garbles the return addresses that
    // allocframe stores.
    { gp = r5 }
    { c17:16 = r3:2
      r0 = r16 }
    { r17:16 = memd(r29 + #0)
      r19:18 = memd(r29 + #8) }
    { r21:20 = memd(r29 + #16)
      r23:22 = memd(r29 + #24) }
    { r25:24 = memd(r29 + #32)
      r27:26 = memd(r29 + #40) }
    { r31:30 = memd(r29 + #48)
      r29 = add(r29, #56) }
    { jumpr r31 }

.Lfailed:
    { r0 = #STATUS_NO_PROTECTION
      r6 = #SYS_EXIT_GROUP }
    { trap0(#1) }
    { jump .Lfailed }
