"""Runs a pipeline on this machine: what its values are, whatever the Hexagon code makes of it.

Only for contained processes: the code is the sender's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import halide as hl
import numpy as np

from tuner.codegen.halide.uploads.deserialized import deserialized
from tuner.codegen.halide.uploads.refusals import NotTunableError


def execute(data: bytes, sizes: Sequence[dict[str, Any]], extents: Sequence[int]) -> bytes:
    """The outputs of the pipeline at the start of ``data``, one call after the other.

    ``sizes`` say how many bytes the pipeline has (first entry, ``bytes``) and of each input its
    ``name``, ``dtype``, ``mins`` and ``extents``, innermost first. After the pipeline come the
    elements of the inputs, for as many calls as there are. ``extents`` are the output's.

    Every stage is computed once, as it is written: no vectors, no tiles.
    """
    (head, *inputs), position = sizes, 0
    opened = deserialized(data[: head["bytes"]])
    position = head["bytes"]
    for func in opened.stages.values():
        if not func.name().endswith("_im"):
            func.compute_root()
    outputs = []
    while position < len(data):
        buffers = []  # Halide does not keep them
        for one in inputs:
            dtype = np.dtype(one["dtype"])
            elements = prod(one["extents"])
            array = np.frombuffer(data, dtype, elements, position).copy()
            position += elements * dtype.itemsize
            buffer = hl.Buffer(array.reshape(one["extents"][::-1]))
            buffer.set_min(list(one["mins"]))
            buffers.append((array, buffer))
            opened.inputs[one["name"]].parameter.set_buffer(buffer)
        made = opened.pipeline.realize(list(extents))
        if not isinstance(made, hl.Buffer):
            raise NotTunableError("it has more than one output; one is accepted")
        outputs.append(np.ascontiguousarray(np.asarray(made)).tobytes())
    return b"".join(outputs)
