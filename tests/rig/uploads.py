"""A serialized pipeline, and what an ill-meaning or unlucky sender makes of it."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache

_PROGRAM = """
import sys
import halide as hl
x, y = hl.Var("x"), hl.Var("y")
image, gain = hl.ImageParam(hl.UInt(8), 2, "image"), hl.Param(hl.{kind}, "gain")
r = hl.RDom([(0, 3)], "r")
rows, out = hl.Func("rows"), hl.Func("out")
rows[x, y] = hl.cast(hl.UInt(16), 0)
rows[x, y] += hl.cast(hl.UInt(16), image[x, y + r.x])
out[x, y] = hl.cast(hl.UInt(8), (rows[x, y] + rows[x + 1, y]) * hl.cast(hl.UInt(16), gain) / 6)
sys.stdout.buffer.write(hl.serialize_pipeline(hl.Pipeline(out)))
"""


@cache
def serialized_pipeline(kind: str = "Int(32)") -> bytes:
    """A two-stage blur: input ``image``, scalar ``gain`` of that kind, stages ``rows`` and ``out``.

    Made in a process of its own, so that Halide's global counter of names starts anew.
    """
    program = _PROGRAM.format(kind=kind)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout


def truncated(count: int, seed: int) -> list[bytes]:
    """``count`` beginnings of it."""
    data, choose = serialized_pipeline(), random.Random(seed)
    return [data[: choose.randrange(1, len(data))] for _ in range(count)]


def flipped(count: int, seed: int) -> list[bytes]:
    """``count`` copies of it with one to four bits the other way."""
    data, choose = serialized_pipeline(), random.Random(seed)
    copies = []
    for _ in range(count):
        copy = bytearray(data)
        for _ in range(choose.randint(1, 4)):
            bit = choose.randrange(8 * len(copy))
            copy[bit // 8] ^= 1 << bit % 8
        copies.append(bytes(copy))
    return copies


def mutated(originals: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """``count`` damaged copies, of one after the other: bits turned, bytes overwritten by numbers
    that offsets and counts like to be, stretches moved, and ends cut off."""
    choose = random.Random(seed)
    for number in range(count):
        copy = bytearray(originals[number % len(originals)])
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(copy))
            kind = choose.randrange(8)
            if kind < 4:
                copy[at] ^= 1 << choose.randrange(8)
            elif kind < 6:
                copy[at] = choose.choice((0, 1, 2, 3, 4, 5, 6, 8, 127, 128, 255))
            elif kind < 7:
                word = choose.choice((0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, len(copy)))
                copy[at & ~3 : (at & ~3) + 4] = word.to_bytes(4, "little")
            else:
                other = choose.randrange(len(copy))
                stretch = choose.randint(1, 64)
                copy[at : at + stretch] = copy[other : other + stretch]
        yield bytes(copy[: choose.randrange(1, len(copy))] if choose.random() < 0.05 else copy)
