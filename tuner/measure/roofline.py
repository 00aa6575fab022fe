"""The roofline: the least model cycles an algorithm needs on a target, however it is scheduled.

The work of a call (:class:`tuner.kernels.kernel.WorkCounts`) over what each resource does in a
cycle, with one roof for each (Williams, Waterman, Patterson, CACM 52(4), 2009). HVX's are facts of
the arch. Those of memory hold for model cycles alone: the bandwidths are the timing model's.

Through DDR go at least the bytes of all buffers that L2 cannot hold from one call to the next; from
cold caches every input, and of outputs what L2 cannot keep.
"""

from __future__ import annotations

from functools import lru_cache
from statistics import fmean

from tuner.kernels import find_kernel
from tuner.kernels.kernel import WorkCounts
from tuner.measure.qemu.model import Parameters, find_model
from tuner.measure.qemu.uncertain import is_assumed, plausible_costs
from tuner.problem.target import Target
from tuner.records.candidate import CacheState, Fidelity, Preference, Problem
from tuner.records.roofline import Bound, Roofline

_KEPT = 1024


def roofline_of(problem: Problem, cache: CacheState = "warm") -> Roofline:
    """The roofline of a problem. ``UserError`` if its kernel is not known here."""
    workload = problem.workload
    work = find_kernel(workload.kernel).work(workload.params)
    return roofline_of_work(work, problem.target, cache)


@lru_cache(maxsize=_KEPT)
def roofline_of_work(work: WorkCounts, target: Target, cache: CacheState = "warm") -> Roofline:
    """The roofline of ``work`` on ``target``."""
    costs = find_model(target.arch).parameters
    cycles = {**work.hvx_cycles(target), **_memory_cycles(work, target, cache, costs)}
    amounts = {
        "multiply": (work.products, "products"),
        "slots": (round(cycles["slots"] * target.vector_bytes), "bytes of units"),
        "permute": (work.permuted_bytes, "bytes"),
        "load": (work.read_bytes, "bytes"),
        "store": (work.written_bytes, "bytes"),
        "l2": (work.read_bytes + work.written_bytes, "bytes"),
        "ddr": (_through_ddr(work, target, cache), "bytes"),
    }
    return Roofline(
        tuple(
            Bound(resource, unit, amount, amount / least)
            for resource, least in cycles.items()
            for amount, unit in [amounts[resource]]
            if amount and least
        )
    )


@lru_cache(maxsize=_KEPT)
def least_ranked_cycles(
    work: WorkCounts, target: Target, cache: CacheState, fidelity: Fidelity, prefer: Preference
) -> float:
    """The least that the best by ``prefer`` is chosen by (``Measurement.ranked_cycles``) can be.

    Of expected cycles that is the mean over the plausible costs of the roofline at each.
    """
    roofline = roofline_of_work(work, target, cache)
    if prefer == "fastest" or fidelity != "model" or not is_assumed(target.arch):
        return roofline.cycles_at(fidelity)
    return fmean(
        max(roofline.compute_cycles, *_memory_cycles(work, target, cache, costs).values())
        for costs in plausible_costs(target.arch)
    )


def _memory_cycles(
    work: WorkCounts, target: Target, cache: CacheState, costs: Parameters
) -> dict[str, float]:
    lines = (work.read_bytes + work.written_bytes) / target.vector_bytes
    return {
        # One context alone cannot ask for more lines than L2 has.
        **({"l2": lines / costs.l2_bandwidth} if work.parallel else {}),
        "ddr": _through_ddr(work, target, cache) / costs.ddr_bandwidth,
    }


def _through_ddr(work: WorkCounts, target: Target, cache: CacheState) -> int:
    if cache == "cold":
        return work.read_bytes + max(0, work.written_bytes - target.l2_bytes)
    return max(0, work.read_bytes + work.written_bytes - target.l2_bytes)
