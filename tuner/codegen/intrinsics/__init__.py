"""Kernels whose inner loops we wrote in HVX intrinsics, with knobs: layers of networks.

A form (:class:`tuner.codegen.intrinsics.form.Form`) is a pair of files beside it: ``NAME.h``, the
functions, and ``NAME.c``, the loops that call them. What is known when code is made, and the
choices of a config, are macros in them.
"""
