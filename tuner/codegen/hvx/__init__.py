"""HVX intrinsics written from what a program is: each kind has a plan (``plan``).

``strips`` plans stencils: ``stencils`` reads what an output pixel is (``pixel``), ``lowering``
makes HVX operations of the expression, ``sliding`` decides what stays in registers from row to row,
and ``writing`` makes C of both. ``narrow`` lays rows that fill no vector side by side for it.
``turning`` plans arrays whose axes change places, ``counting`` histograms, ``scanning`` running
sums, ``matching`` windows against a template, ``blocks`` blocks at shifts, ``filtering`` sums of 8-
and 16-bit samples in words (``words``), ``transforming`` transforms of blocks, ``gathering``
elements that others choose, and ``pointwise`` functions of the elements at each place, of any width
(``elements``). ``multiplying`` plans products of matrices, with what becomes of their sums
(``requantizing``), and ``flattening`` windows over pixels of any number of channels, whose rows are
rows of bytes. ``routing`` plans what reads elements from places that are known (``places``), which
``networks`` brings to their lanes, and ``recurring`` rows that follow from those before. ``kinds``
registers them, makes several outputs each by itself, and turns recurrences along rows.
``generator`` is the code generator ``hvx``.
"""
