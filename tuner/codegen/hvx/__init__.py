"""HVX intrinsics written from what a program is: a stencil, or an array that is turned.

``stencils`` reads what an output pixel is (``pixel``). ``lowering`` makes HVX operations of the
expression, ``sliding`` decides what stays in registers from row to row, and ``writing`` makes C of
both. ``turning`` reads how axes change places, and writes that. ``generator`` is the code generator
``hvx``.
"""
