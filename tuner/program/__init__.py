"""One form for everything that is tuned: a program of integer loops.

A program is what its text says, which reads like the loops that it means::

    def sharpened(height: size, width: size, image: u8[height, width], gain: i16(0, 64)):
        for y in ...:
            for x in ...:
                edged[y, x] = i16(image[max(min(y, height - 1), 0), max(min(x, width - 1), 0)])
        for y in range(height):
            for x in range(width):
                output[y, x] = u8_sat(edged[y, x] + (gain * (2 * edged[y, x] - edged[y, x - 1]
                                                             - edged[y, x + 1]) >> 6))
        for bin in range(256):
            counts[bin] = u32(0)
        for y in range(height):
            for x in range(width):
                counts[i32(output[y, x])] += 1
        return output, counts

Its nodes, all immutable:

- :class:`Program`: sizes (fixed when it is compiled), arguments, tables, stages, outputs;
- :class:`Scalar`, :class:`Buffer`: arguments, with the range that their values are declared to
  have; a buffer's axes begin and end at expressions of sizes and scalars, so also where another's
  do; :class:`Table`: a buffer whose elements are known;
- :class:`Stage`: one or several arrays (a tuple) over a domain: a pure definition, then
  :class:`Update` after update: loops that store at computed places and may read what earlier
  iterations stored: reductions, histograms, scans, recurrences;
- :class:`Loop`: from an expression up to another, of sizes, scalars and outer indices; or ``...``,
  as far as the stage reaches, which follows from what its readers read;
- expressions, each with a :class:`Type` (``i8`` to ``u64``, or a condition): :class:`Constant`,
  :class:`Variable` (index, size or scalar), :class:`Load`, :class:`Unary`, :class:`Binary`,
  :class:`Select`, :class:`Cast` (wrapping or saturating). Operators of numbers are ``+ - * // %``,
  ``& | ^ ~``, ``<< >>``, ``min max``, ``abs absd`` (unsigned), ``popcount clz ctz`` and the
  comparisons; of conditions ``& | ^ ~ == !=``. ``//`` and ``%`` are Halide's (no remainder is
  negative, by 0 all is 0), and so are shifts (by less than 0 the other way).

Arithmetic is modulo ``2 ** bits`` of the operands' type; a wider result is had by widening them
first. Signed overflow of 32 and 64 bits is undefined in Halide
(:attr:`Type.overflow_is_undefined`); here it wraps as well, and `overflow` tells where it can be.

`printing` and `parsing` go to and from text. `interpretation` is the reference in NumPy, `bounds`
say how far stages reach and what values they have, `overflow` and `demands` (the work) follow from
those, `normal` is where spellings of one algorithm meet, and `plain_c` writes C.
"""

from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Unary,
    Variable,
)
from tuner.program.loops import Buffer, Loop, Program, Scalar, Stage, Table, Update
from tuner.program.types import Type

__all__ = [
    "Binary",
    "Buffer",
    "Cast",
    "Constant",
    "Expr",
    "Load",
    "Loop",
    "Program",
    "ProgramError",
    "Scalar",
    "Select",
    "Stage",
    "Table",
    "Type",
    "Unary",
    "Update",
    "Variable",
]
