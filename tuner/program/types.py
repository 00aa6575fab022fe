"""Integer types: a width and a sign."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

_NAME = re.compile(r"([iu])(8|16|32|64)")


@dataclass(frozen=True)
class Type:
    """Integers of ``bits`` (8, 16, 32 or 64) in two's complement, or conditions (:data:`BOOL`)."""

    bits: int
    is_signed: bool

    @classmethod
    def named(cls, name: str) -> Type | None:
        """The type called ``name``, such as ``u8`` or ``i32``; ``None`` if there is none."""
        match = _NAME.fullmatch(name)
        return cls(int(match[2]), match[1] == "i") if match else BOOL if name == "bool" else None

    def __str__(self) -> str:
        return "bool" if self.bits == 1 else f"{'i' if self.is_signed else 'u'}{self.bits}"

    @property
    def low(self) -> int:
        """Its least value."""
        return -(1 << self.bits - 1) if self.is_signed else 0

    @property
    def high(self) -> int:
        """Its greatest value."""
        return (1 << self.bits - self.is_signed) - 1

    @property
    def overflow_is_undefined(self) -> bool:
        """Whether Halide leaves the value of sums, products and the like beyond the type undefined:
        of signed ones of 32 and 64 bits. The form wraps them; compilers of it need not."""
        return self.is_signed and self.bits >= 32

    @property
    def unsigned(self) -> Type:
        """The unsigned type of the same width."""
        return Type(self.bits, False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's name for it."""
        name = f"{'' if self.is_signed else 'u'}int{self.bits}"
        return np.dtype("bool" if self == BOOL else name)

    def holds(self, value: int) -> bool:
        """Whether it has that value."""
        return self.low <= value <= self.high

    def wrapped(self, value: int) -> int:
        """``value`` modulo ``2 ** bits``."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.high else value


BOOL = Type(1, False)
U8, U16, U32, U64 = (Type(bits, False) for bits in (8, 16, 32, 64))
I8, I16, I32, I64 = (Type(bits, True) for bits in (8, 16, 32, 64))
INDEX = I32
"""Of indices, sizes and the bounds of loops."""
