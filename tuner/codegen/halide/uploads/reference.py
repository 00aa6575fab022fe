"""The reference of an upload, as the contained process is asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.interpretation import Buffer, Region, interpreted


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
    contents = checked(data[:pipeline_bytes])
    position, buffers = pipeline_bytes, {}
    for one in inputs:
        flat = np.frombuffer(data, one["dtype"], prod(one["extents"]), position)
        position += flat.nbytes
        buffers[one["name"]] = Buffer(flat.reshape(one["extents"][::-1]), tuple(one["mins"]))
    found = interpreted(contents, buffers, scalars, _wanted(contents.outputs, outputs))
    return b"".join(values.tobytes() for name in contents.outputs for values in found[name])


def _wanted(names: Sequence[str], outputs: Sequence[Mapping[str, Any]]) -> dict[str, Region]:
    """The region of each output Func. Those of a tuple are alike: NAME.0, NAME.1 and so on."""
    regions = {}
    for one in outputs:
        name = one["name"] if one["name"] in names else one["name"].rpartition(".")[0]
        ends = zip(one["mins"], one["extents"], strict=True)
        regions[name] = tuple((least, least + extent - 1) for least, extent in ends)
    return regions
