// The call of the candidate, and the two addresses between which packets count.
//
// The linker puts the section .hvxtune.window at an address the simulator knows: its first packet
// opens the region of interest, the packet the candidate returns to closes it.

    .section .hvxtune.window, "ax", @progbits
    .p2align 2
    .globl hvxtune_window_begin, hvxtune_window_end
hvxtune_window_begin:
    { call hvxtune_entry }
hvxtune_window_end:
    { dealloc_return }

// int hvxtune_call(void *const *arguments, uint32_t count)
// Six arguments travel in r0 to r5, the others on the stack (Hexagon ABI, argument passing).
    .text
    .globl hvxtune_call
    .type hvxtune_call, @function
    .p2align 4
hvxtune_call:
    { allocframe(#40)
      r28 = r0 }
    { r2 = add(r0, #24)
      r3 = add(r1, #-6)
      r4 = add(r29, #0) }
    { p0 = cmp.gt(r3, #0)
      if (!p0.new) jump:nt .Lregisters }
    { loop0(.Lstack, r3) }
    .p2align 4
.Lstack:
    { r5 = memw(r2++#4) }
    { memw(r4++#4) = r5 } :endloop0
.Lregisters:
    { r1:0 = memd(r28 + #0)
      r3:2 = memd(r28 + #8) }
    { r5:4 = memd(r28 + #16) }
    { jump hvxtune_window_begin }
