"""Overflow that Halide leaves undefined, told where a pipeline is read."""

from __future__ import annotations

from collections.abc import Sequence

from tuner.program.bounds import bounded
from tuner.program.expressions import ordered
from tuner.program.loops import Program
from tuner.program.overflow import overflows, without_overflow

_MOST_NODES = 10_000
"""Of expressions; of more nothing is told, for which their bounds are found several times."""
_MOST_TOLD = 300


def told_overflow(program: Program, names: Sequence[tuple[str, str] | None]) -> str:
    """Where ``program``, which has no sizes, may overflow so, and ranges of its arguments that
    exclude it; empty if it nowhere does. ``names`` are those of the parameters by which the values
    of each argument are declared, where they are."""
    nodes = sum(1 for stage in program.stages for _ in ordered(stage.expressions))
    found = overflows(bounded(program, {})) if nodes <= _MOST_NODES else []
    if not found:
        return ""
    told = str(found[0])
    told = told if len(told) <= _MOST_TOLD else f"{told[:_MOST_TOLD]}..."
    narrow = without_overflow(program, {})
    if narrow is None:
        return f"{told}; no range of its inputs and scalars excludes that"
    chosen = [
        f"-p {name}={value}"
        for one, own in zip(narrow.arguments, names, strict=True)
        if one.low < one.high
        for name, value in zip(own or (), (one.low, one.high), strict=False)
    ]
    return f"{told}; not so with {' '.join(chosen)}"
