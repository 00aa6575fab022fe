"""Runs a pipeline on this machine: what its values are, whatever the Hexagon code makes of it.

Only for contained processes: the code is the sender's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import halide as hl
import numpy as np

from tuner.codegen.halide.uploads.deserialized import deserialized


def execute(
    data: bytes,
    pipeline_bytes: int,
    inputs: Sequence[Mapping[str, Any]],
    scalars: Mapping[str, int],
    outputs: Sequence[Mapping[str, Any]],
) -> bytes:
    """The outputs of the pipeline in the first ``pipeline_bytes`` of ``data``, call after call.

    ``inputs`` and ``outputs`` say of each buffer its ``name``, ``dtype``, ``mins`` and ``extents``,
    innermost first, ``scalars`` what the others are. After the pipeline come the elements of the
    inputs, for as many calls as there are.

    Every stage is computed once, as it is written: no vectors, no tiles.
    """
    position = pipeline_bytes
    opened = deserialized(data[:position])
    for func in opened.stages.values():
        if not func.name().endswith("_im"):
            func.compute_root()
    for name, value in scalars.items():
        opened.scalars[name].set(value)
    answers = []
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
            opened.inputs[one["name"]].set(buffer)
        made = [np.zeros(one["extents"][::-1], one["dtype"]) for one in outputs]
        targets = [hl.Buffer(array) for array in made]
        for target, one in zip(targets, outputs, strict=True):
            target.set_min(list(one["mins"]))
        opened.pipeline.realize(targets)
        answers += [array.tobytes() for array in made]
    return b"".join(answers)
