"""Tuning spaces: knobs, constraints, configs, and the schedule directives they stand for.

A :class:`Space` is plain data (it round-trips through JSON and has a digest): knobs with their
choices, and constraints as expressions with the reason for each. A :class:`Config` is one point
of it. Kernels turn a config into :class:`Directive` values; code generators apply those.
"""

from tuner.space.config import Config, KnobValue
from tuner.space.directives import Directive, Stage, Steps, TailStrategy, tail
from tuner.space.expression import Expression
from tuner.space.space import Constraint, Knob, Space

__all__ = [
    "Config",
    "Constraint",
    "Directive",
    "Expression",
    "Knob",
    "KnobValue",
    "Space",
    "Stage",
    "Steps",
    "TailStrategy",
    "tail",
]
