"""A serialized pipeline, and what an ill-meaning or unlucky sender makes of it."""

from __future__ import annotations

import random
import subprocess
import sys
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
