// Where QEMU starts the program, and the change to another stack for main.

    .text
    .globl _start
    .type _start, @function
_start:
    { r0 = r29
      r30 = #0 }
    { r1 = and(r29, #-8) }
    { r29 = r1 }
    { call loader_main }

// int call_on_stack(int argc, char **argv, void *function, void *stack_top)
    .globl call_on_stack
    .type call_on_stack, @function
    .p2align 4
call_on_stack:
    { r29 = add(r29, #-16) }
    { memd(r29 + #0) = r31:30
      memd(r29 + #8) = r17:16 }
    { r16 = r29
      r29 = r3
      r30 = #0 }
    { callr r2 }
    { r29 = r16 }
    { r31:30 = memd(r29 + #0)
      r17:16 = memd(r29 + #8) }
    { r29 = add(r29, #16) }
    { jumpr r31 }
