"""HVX intrinsics written from what a pixel is (:mod:`tuner.codegen.hvx.pixel`).

``lowering`` makes HVX operations of the expression, ``sliding`` decides what stays in registers
from row to row, ``writing`` makes C of both, and ``generator`` is the code generator ``hvx``.
"""
