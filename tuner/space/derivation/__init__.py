"""Spaces of pipelines that have none of their own.

``facts`` describes a pipeline at one size; ``roles`` decides from it how each stage may be
scheduled, ``space`` makes knobs and constraints of that, and ``directives`` turns configs into the
same schedule directives that hand-written kernels use. Everything here is plain Python: Halide is
only touched in a contained process (``tuner.codegen.halide.uploads``).
"""

from tuner.space.derivation.directives import derived_schedule
from tuner.space.derivation.facts import (
    BufferFacts,
    PipelineFacts,
    ScalarFacts,
    StageFacts,
    UpdateFacts,
)
from tuner.space.derivation.space import derived_space, textbook_values

__all__ = [
    "BufferFacts",
    "PipelineFacts",
    "ScalarFacts",
    "StageFacts",
    "UpdateFacts",
    "derived_schedule",
    "derived_space",
    "textbook_values",
]
