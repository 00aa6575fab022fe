"""A kernel's pipeline compiled for this machine: a second opinion on the algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import halide as hl
import numpy as np

from tuner.kernels import Kernel
from tuner.kernels.kernel import Array


def run_on_host(kernel: Kernel, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
    """The outputs of ``kernel``'s pipeline, every stage computed on its own."""
    pipeline = kernel.pipeline(params)
    for parameter, array in zip(pipeline.inputs, inputs, strict=True):
        parameter.set(hl.Buffer(np.ascontiguousarray(array)))
    for stage in pipeline.stages.values():
        stage.compute_root()
    outputs = [
        np.zeros(spec.shape, spec.dtype) for spec in kernel.buffers(params) if spec.role == "output"
    ]
    pipeline.output.realize([hl.Buffer(array) for array in outputs])
    return outputs
