"""Kernels as plain C, vectorized by clang.

``forms`` finds a kernel's loops (``c_forms/KERNEL.c`` beside the kernel, or several of them);
``source`` wraps them as a function that is called like Halide's; ``prelude.h`` is what they may
use; ``generator`` is the code generator.
"""
