"""The reference of a pipeline: the interpretation of its program, which no compiler has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.program import declared, read_program
from tuner.program.interpretation import evaluated_in_parts


def reference(
    data: bytes,
    pipeline_bytes: int,
    inputs: Sequence[Mapping[str, Any]],
    scalars: Mapping[str, int],
    outputs: Sequence[Mapping[str, Any]],
) -> bytes:
    """The outputs of the pipeline in the first ``pipeline_bytes`` of ``data``.

    ``inputs`` and ``outputs`` say of each buffer its ``name``, ``dtype``, ``mins`` and ``extents``,
    innermost first, ``scalars`` what the others are. After the pipeline come the elements of the
    inputs.
    """
    places = {one["name"]: (one["mins"], one["extents"]) for one in chain(inputs, outputs)}
    program = read_program(checked(data[:pipeline_bytes]), known=places)
    own = (one.name for one in program.scalars)
    values = dict(zip(own, scalars.values(), strict=True))
    program = declared(program, [()] * len(inputs), [(one, one) for one in values.values()])
    position, arrays, firsts = pipeline_bytes, {}, {}
    for buffer, one in zip(program.inputs, inputs, strict=True):
        flat = np.frombuffer(data, one["dtype"], prod(one["extents"]), position)
        position += flat.nbytes
        arrays[buffer.name] = flat.reshape(one["extents"][::-1])
        firsts[buffer.name] = one["mins"][::-1]
    found = evaluated_in_parts(program, arrays, values, firsts)
    return b"".join(array.tobytes() for array in found.values())
