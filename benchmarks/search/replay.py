"""Searches replayed on tables: the ask/tell code of real jobs, with looked-up results."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.search.tables import Table
from tuner.search.proposer import Proposal, Proposer
from tuner.search.samplers import Source
from tuner.space import Config


@dataclass(frozen=True)
class Replay:
    """One search of one table.

    ``best`` is the fewest cycles found in the first n trials over the table's optimum, for n from
    1; infinite before the first valid trial. A search that ends
    early, its space exhausted, stays where it was. ``own_ms`` is the processor time of sampler and
    proposer for each trial.
    """

    table: str
    sampler: str
    seed: int
    best: tuple[float, ...]
    own_ms: float
    tried: tuple[Config, ...] = ()
    """The configs tried, in order."""

    def at(self, trials: int) -> float:
        """The best over the optimum after ``trials`` trials."""
        return self.best[min(trials, len(self.best)) - 1]


def replay(
    table: Table,
    sampler: str,
    seed: int,
    *,
    trials: int,
    in_flight: int = 1,
    starts: bool = False,
    source: Source | None = None,
    enough: float = 0.0,
) -> Replay:
    """Searches ``table`` with ``sampler``, ``in_flight`` candidates at a time.

    As in a job, the textbook config that the table names comes first, with ``starts``, then the
    default; the sampler may learn from ``source``. The search ends when its best is at most
    ``enough`` times the optimum. A config without a row breaks a constraint here: it costs no
    trial. One whose outcome is not ``ok`` does.
    """
    begun = time.process_time()
    proposer = Proposer(table.space, sampler, seed, source=source)
    own = table.starts if starts else ()
    first = list(dict.fromkeys([*own[-1:], *own]))
    waiting: list[Proposal] = []
    asked = 0
    best: list[float] = []
    tried: list[Config] = []
    lowest = float("inf")
    while len(best) < trials and lowest > enough:
        while asked < trials and len(waiting) < in_flight:
            proposal = proposer.propose(first.pop(0)) if first else proposer.ask()
            if proposal is None:
                break
            asked += 1
            waiting.append(proposal)
        if not waiting:
            break
        proposal = waiting.pop(0)
        row = table.results[proposal.config]
        tried.append(row.config)
        proposer.tell(proposal, row.outcome, row.cycles)
        if row.cycles is not None:
            lowest = min(lowest, row.cycles / table.optimum)
        best.append(lowest)
    own_s = time.process_time() - begun
    own_ms = 1000 * own_s / max(1, len(best))
    return Replay(table.name, sampler, seed, tuple(best), own_ms, tuple(tried))
