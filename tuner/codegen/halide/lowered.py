"""The lowered form of a pipeline by a digest: equal digests make equal objects.

What a schedule comes to is known once Halide has lowered it, in a twentieth of the time of the
whole compilation. Two schedules may come to the same loops under other names: a tail that divides
the extent, a loop of one iteration written out, storage aligned that was aligned before.
"""

from __future__ import annotations

import re
from pathlib import Path

import halide as hl

from tuner.identity import digest_of_bytes

_DECLARED = re.compile(
    r"\b(?:let|allocate|produce|consume) ([A-Za-z_][\w.$]*)"
    r"|^ *(?:for|parallel|vectorized|unrolled)\S* ?\(([A-Za-z_][\w.$]*),",
    re.MULTILINE,
)
"""Where Halide's printed statements introduce a name."""
_NAME = re.compile(r"[A-Za-z_][\w.$]*")


def digest_of_lowered(module: hl.Module, switches: str) -> str:
    """Names the statements of ``module``, whatever their variables and buffers are called, with the
    ``switches`` for LLVM that they are compiled with. Writes in the current directory."""
    module.compile({hl.OutputFileType.stmt: "stmt"})
    return digest_of_bytes(f"{switches}\n{renamed(Path('stmt').read_text())}".encode())


def renamed(statements: str) -> str:
    """``statements`` with all that they declare numbered in the order in which it appears.

    Names of functions, types, memories and of the function's own arguments stay.
    """
    declared = {name for found in _DECLARED.findall(statements) for name in found if name}
    numbers: dict[str, str] = {}

    def number(found: re.Match[str]) -> str:
        name = found.group()
        if name not in declared:
            return name
        return numbers.setdefault(name, f"v{len(numbers)}")

    return _NAME.sub(number, statements)
