// Asks for what `hvxtune_fetched` (linux_user.c) names to come to L2, and goes on in its function,
// whose arguments stay where they are. Part of the timed call, as it would be on a DSP.
    .text
    .globl hvxtune_fetch_and_call
    .type hvxtune_fetch_and_call, @function
    .p2align 4
hvxtune_fetch_and_call:
    { r10 = ##hvxtune_fetched }
    { r13:12 = memd(r10 + #0)
      r14 = memw(r10 + #8) }
    { r15 = memw(r10 + #12) }
    { l2fetch(r14, r13:12) }
    { jumpr r15 }
