"""What the default search itself takes: processor time a trial, as results pile up.

    python -m benchmarks.search_cost [--trials 1200] [--in-flight 4]

Spaces are those of kernels: one that is listed at once, and one too large for that. Cycles are made
up (every choice has a factor, every pair of choices another, one config in seven fails): what they
are changes nothing about the cost.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy is loaded: time of one processor

from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.records.outcome import Outcome
from tuner.search.proposer import Proposal, Proposer
from tuner.search.samplers import DEFAULT_SAMPLER
from tuner.space import Config, Space

BAR_MS = 10.0
BLOCK = 200
_FAILING = 7
_WORKLOADS = (
    ("gemm_u8", {"m": 64, "n": 256, "k": 64}),
    ("gaussian5x5_u8", {"width": 1000, "height": 250}),
)


@dataclass(frozen=True)
class Block:
    """Milliseconds of a processor for each of the trials up to ``trials``, since the last one."""

    trials: int
    own_ms: float


def cost(space: Space, trials: int, in_flight: int) -> Iterator[Block]:
    """Searches ``space`` for ``trials`` trials."""
    proposer = Proposer(space, DEFAULT_SAMPLER, 0)
    waiting: deque[Proposal] = deque()
    begun = time.process_time()
    told = 0
    while told < trials:
        proposal = proposer.ask() if len(waiting) < in_flight else None
        if proposal is not None:
            waiting.append(proposal)
            continue
        if not waiting:
            return
        done = waiting.popleft()
        cycles = made_up(done.config)
        proposer.tell(done, Outcome.OK if cycles else Outcome.COMPILE_ERROR, cycles)
        told += 1
        if told % BLOCK == 0:
            now = time.process_time()
            yield Block(told, 1000 * (now - begun) / BLOCK)
            begun = now


def made_up(config: Config) -> int | None:
    """Cycles of a config, the same in every run; ``None`` where it fails."""
    if _number(config.digest) % _FAILING == 0:
        return None
    choices = [f"{name}={value}" for name, value in config.items()]
    pairs = ["".join(pair) for pair in itertools.combinations(choices, 2)]
    cycles = 10_000.0
    for choice in choices:
        cycles *= 1 + _number(choice) % 100 / 100
    for pair in pairs:
        cycles *= 1 + _number(pair) % 100 / 1000
    return round(cycles)


def _number(text: str) -> int:
    return zlib.crc32(text.encode())


def main() -> int:
    """Prints the cost by number of trials."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1200)
    parser.add_argument("--in-flight", type=int, default=4)
    given = parser.parse_args()
    print(f"{DEFAULT_SAMPLER}: processor milliseconds a trial, {given.in_flight} in flight")
    most = 0.0
    for kernel, params in _WORKLOADS:
        problem = find_problem(kernel, params, "hexagon-v66", "static")
        space = find_kernel(kernel).space(problem)
        size = f"{space.count(100_000):,} configs"
        for block in cost(space, given.trials, given.in_flight):
            most = max(most, block.own_ms)
            print(
                f"{kernel}, {size}: to {block.trials} trials {block.own_ms:.1f} ms/trial",
                flush=True,
            )
    held = "held" if most < BAR_MS else "NOT held"
    print(f"less than {BAR_MS:g} ms a trial: at most {most:.1f}, {held}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
