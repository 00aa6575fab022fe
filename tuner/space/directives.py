"""Schedule directives: what a config does to a pipeline, as plain data.

Kernels produce directives without importing any compiler. The Halide code generator applies them
and also prints them as the C++ of a ``.schedule.h`` file.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TailStrategy(StrEnum):
    """What happens where a split does not divide the extent; names as in Halide."""

    AUTO = "Auto"
    ROUND_UP = "RoundUp"
    GUARD_WITH_IF = "GuardWithIf"
    SHIFT_INWARDS = "ShiftInwards"
    PREDICATE = "Predicate"
    PREDICATE_LOADS = "PredicateLoads"
    PREDICATE_STORES = "PredicateStores"
    SHIFT_INWARDS_AND_BLEND = "ShiftInwardsAndBlend"
    ROUND_UP_AND_BLEND = "RoundUpAndBlend"


@dataclass(frozen=True)
class Directive:
    """One scheduling call on one stage of a pipeline.

    ``func`` is the stage's name in the kernel's pipeline, ``update`` the index of the update
    definition or ``None`` for the pure one. ``op`` is Halide's method name and ``args`` its
    arguments: variable and stage names as strings, sizes as integers, tail strategies.
    """

    func: str
    op: str
    args: tuple[str | int | TailStrategy, ...] = ()
    update: int | None = None
