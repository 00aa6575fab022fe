"""Which of several stored schedules is the best: the one order, whoever asks."""

from __future__ import annotations

from tuner.problem.contract import Contract
from tuner.records.candidate import FIDELITIES

Rank = tuple[int, float, str, int, int]

_HEIGHTS: dict[str, int] = {fidelity: height for height, fidelity in enumerate(FIDELITIES)}
_LEVELS: dict[str, int] = {contract.value: contract.level for contract in Contract}


def rank(
    fidelity: str, toolchain_used_at: float, toolchain_digest: str, cycles: int, contract: str
) -> Rank:
    """A key that sorts schedules for the same workload, target and cache state best first.

    The highest fidelity, then the toolchain used last: cycles are compared only within both. There
    the fewest cycles win, under whichever contract, and at the same cycles the contract that
    demands most: it is what the caller keeps anyway. Digests decide between toolchains that were
    used last at the same moment, so no two schedules share a rank.
    """
    return (
        -_HEIGHTS[fidelity],
        -toolchain_used_at,
        toolchain_digest,
        cycles,
        -_LEVELS[contract],
    )
