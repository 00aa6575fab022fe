"""Pipelines that users upload, as bytes of Halide's serializer.

Nothing about the bytes can be trusted, and Halide never opens them: its reader follows offsets it
finds in them, and a flipped bit can crash it. ``reader`` is the process whose contained children
read them, one each; ``readers`` keeps it running and asks it, and believes only what ``answers``
accepts.

Wherever bytes are opened, ``contents`` goes through all of them first (``serialized`` reads them)
and accepts only what is listed there and in ``intrinsics``. What passes is a program of loops
(``program``), whose interpretation is the ``reference``: no upload is ever compiled for this
machine. Halide is given what is written of it (``pipelines``), and ``analysis`` finds what a space
is derived from: ``stages`` tells what definitions say of it, ``regions`` how far they reach.
"""

from __future__ import annotations

from tuner.codegen.halide.uploads.answers import (
    Analysis,
    PipelineDescription,
    PipelineInput,
    PipelineStage,
    SizeParam,
)
from tuner.codegen.halide.uploads.readers import (
    analyse_pipeline,
    describe_pipeline,
    reference_outputs,
    written_pipeline,
)

__all__ = [
    "Analysis",
    "PipelineDescription",
    "PipelineInput",
    "PipelineStage",
    "SizeParam",
    "analyse_pipeline",
    "describe_pipeline",
    "reference_outputs",
    "written_pipeline",
]
