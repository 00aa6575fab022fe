"""Spaces derived from pipelines that nobody wrote a space for.

``facts`` is what is known of a pipeline at one size; ``roles`` decides from it what may happen to
each stage, ``knobs`` makes the space of that, with its ``constraints``, and ``directives`` turns
its configs into the same schedule directives that hand-written kernels use. Everything here is
plain Python: what touches Halide happens in a contained process
(``tuner.codegen.halide.uploads``).
"""

from tuner.space.derivation.directives import derived_schedule
from tuner.space.derivation.facts import (
    BufferFacts,
    PipelineFacts,
    ScalarFacts,
    StageFacts,
    UpdateFacts,
)
from tuner.space.derivation.knobs import derived_space, textbook_values

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
