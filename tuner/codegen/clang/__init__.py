"""Objects by the clang of the ``ziglang`` wheel, whose LLVM is newer than Halide's.

``command`` knows its command line and the switches of its Hexagon back end that are knobs;
``generator`` compiles the LLVM IR that Halide makes of a schedule.
"""
