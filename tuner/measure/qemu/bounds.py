"""Where the buffers of watched calls lie, for the plugin to check every access against.

Mirrors ``struct bounds`` of ``plugin/session.h``.
"""

from __future__ import annotations

import struct

from tuner.measure.cases import Argument
from tuner.measure.image import Image
from tuner.measure.qemu.memory_map import CASE_BEGIN

_CALLS, _REGIONS, _DIMENSIONS = 32, 512, 6
_HEAD = struct.Struct("<2I")
_CALL = struct.Struct("<3I")
_REGION = struct.Struct(f"<4I{_DIMENSIONS}I{_DIMENSIONS}I")
BOUNDS_BYTES = _HEAD.size + _CALLS * _CALL.size + _REGIONS * _REGION.size


def packed_bounds(image: Image) -> bytes:
    """``struct bounds`` for the practice calls of ``image`` and its watched cases."""
    watched = image.watched_calls
    calls: list[bytes] = []
    regions: list[bytes] = []
    for case, (part, size), starts in list(
        zip(image.cases.cases, image.parts, image.starts, strict=True)
    )[:watched]:
        calls.append(_CALL.pack(len(regions), len(case.arguments), size))
        regions += [
            _region(argument, CASE_BEGIN + start - part)
            for argument, start in zip(case.arguments, starts, strict=True)
        ]
    table = b"".join(calls).ljust(_CALLS * _CALL.size, b"\0")
    return _HEAD.pack(CASE_BEGIN, watched) + table + b"".join(regions)


def _region(argument: Argument, begin: int) -> bytes:
    size = argument.spec.element_bytes
    run = size
    outer: list[tuple[int, int]] = []
    for extent, stride in zip(
        reversed(argument.spec.shape), reversed(argument.layout.strides), strict=True
    ):
        if not outer and stride * size == run:
            run *= extent
        elif extent > 1:
            outer.insert(0, (extent, stride * size))
    unused = (0,) * (_DIMENSIONS - len(outer))
    extents, strides = ([pair[part] for pair in outer] for part in (0, 1))
    return _REGION.pack(
        *(begin, run, argument.spec.role == "output", len(outer)),
        *(*extents, *unused),
        *(*strides, *unused),
    )
