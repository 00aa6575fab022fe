"""Kernels without schedules of their own, for tests: a stencil and a reduction.

Set the environment variable ``HVXTUNE_KERNELS`` to :data:`KERNELS` to use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tuner.kernels.kernel import Array, BufferSpec, HalidePipeline, Param
from tuner.uploaded.derived import DerivedKernel

KERNELS = "across_u8=tests.rig.derived_u8:AcrossU8,misnamed_u8=tests.rig.derived_u8:MisnamedU8"


class AcrossU8(DerivedKernel):
    """out = the mean of three neighbours in a row, edges repeated, plus ``more``."""

    name = "across_u8"
    summary = "mean of three neighbours (test kernel)"
    params = (
        # Halide keeps smaller stages where their size cannot be told.
        Param("width", 512, "pixels of a row", 16),
        Param("height", 16, "rows", 16),
        Param("more", 1, "added to each mean", 0, 255, is_extent=False),
    )

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        shape = (params["height"], params["width"])
        return (
            BufferSpec("image", "uint8", shape, "input"),
            BufferSpec("out", "uint8", shape, "output"),
        )

    def reference(self, params: Mapping[str, int], inputs: Sequence[Array]) -> list[Array]:
        wide = np.pad(inputs[0], ((0, 0), (1, 1)), mode="edge").astype(np.uint16)
        total = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
        return [np.minimum((total >> 2) + params["more"], 255).astype(np.uint8)]

    def pipeline(self, params: Mapping[str, int]) -> HalidePipeline:
        import halide as hl

        x, y = hl.Var("x"), hl.Var("y")
        image = hl.ImageParam(hl.UInt(8), 2, "image")
        padded = hl.BoundaryConditions.repeat_edge(image)
        total, out = hl.Func("total"), hl.Func("out")
        left, middle, right = (hl.u16(padded[x + d, y]) for d in (-1, 0, 1))
        total[x, y] = left + 2 * middle + right
        out[x, y] = hl.u8_sat((total[x, y] >> 2) + hl.u16(params["more"]))
        return HalidePipeline((image,), out, {"total": total, "out": out})


class MisnamedU8(AcrossU8):
    """Its pipeline calls the output otherwise."""

    name = "misnamed_u8"

    def buffers(self, params: Mapping[str, int]) -> tuple[BufferSpec, ...]:
        image, out = super().buffers(params)
        return (image, out._replace(name="output"))
