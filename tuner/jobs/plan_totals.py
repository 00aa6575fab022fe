"""Totals of a network by its plan, beside those of its layers without one.

All times are modelled: cycles of the timing model at the speed that the topology states, calls and
copies as it states them, layers on other units as declared.
"""

from __future__ import annotations

from dataclasses import dataclass

from tuner.jobs.batch_progress import BatchTable, LayerProgress
from tuner.records.network_plan import NetworkPlan, PlannedUnit


@dataclass(frozen=True)
class PlanTotal:
    """A way to run the network: cycles of kernels, calls to units other than the host, and the
    modelled microseconds of one input. Cycles and time are ``None`` where a layer was not tuned for
    its unit."""

    name: str
    cycles: float | None
    calls: int
    time_us: float | None


def plan_totals(table: BatchTable, plan: NetworkPlan) -> list[PlanTotal]:
    """The plan, and the same layers on the same units in one call each, with textbook schedules and
    with the best so far. Empty for a stream, whose times are not those of one input."""
    if plan.objective == "throughput":
        return []
    rows = table.layers
    by_target = [
        (row, plan.unit(one.unit), one.time_us)
        for row, one in zip(rows, plan.layers, strict=True)
        if plan.unit(one.unit).cycles_per_us and one.time_us
    ]
    called = [
        plan.unit(one.unit) for one in plan.layers if one.time_us and not plan.unit(one.unit).host
    ]
    apart_us = sum(unit.call_us for unit in called)
    kernels_us = sum(time_us for *_, time_us in by_target)
    calls_us = sum(b.end_us - b.start_us for b in plan.bars if b.kind == "call")
    rest_us = plan.latency_us - kernels_us - calls_us

    def apart(name: str, figure: str) -> PlanTotal:
        found = [(_cycles(table, row, unit, figure), unit) for row, unit, _ in by_target]
        if any(cycles is None for cycles, _ in found):
            return PlanTotal(name, None, len(called), None)
        known = [(cycles or 0, unit.cycles_per_us) for cycles, unit in found]
        spent_us = sum(cycles / speed for cycles, speed in known)
        return PlanTotal(
            name, sum(cycles for cycles, _ in known), len(called), rest_us + apart_us + spent_us
        )

    return [
        apart("textbook schedules, one call a layer", "textbook_cycles"),
        apart("best schedules, one call a layer", "best_cycles"),
        PlanTotal(
            "the plan",
            sum(time_us * unit.cycles_per_us for _, unit, time_us in by_target),
            plan.calls,
            plan.latency_us,
        ),
    ]


def _cycles(table: BatchTable, row: LayerProgress, unit: PlannedUnit, figure: str) -> int | None:
    """The cycles of a layer, if its job is for the unit's target."""
    if row.progress is None:
        return None
    problem = table.problems[row.progress.member.job]
    found: int | None = getattr(row, figure)
    return found if problem.target.name == unit.target else None
