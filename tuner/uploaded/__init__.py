"""Uploaded pipelines as kernels: ``pipeline:`` and the first twelve digits of their digest.

``files`` keeps their bytes in the state directory, ``kernel`` makes of them what a hand-written
kernel is. Nothing of the bytes is opened here: ``tuner.codegen.halide.uploads`` has a contained
process do that.
"""

from tuner.uploaded.kernel import (
    PipelineKernel,
    UploadedPipelines,
    attached_pipeline,
    find_pipeline,
    kernel_name,
    references,
)

__all__ = [
    "PipelineKernel",
    "UploadedPipelines",
    "attached_pipeline",
    "find_pipeline",
    "kernel_name",
    "references",
]
