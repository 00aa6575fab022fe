"""The estimate of the remaining gain, held against tables whose optimum is known.

    python -m benchmarks.search_stopping [--seeds 10] TABLE ...

Each table is searched as a job would, with the estimate of a job. For each number of trials: the
gain that was expected, the gain there was, and how often that was within the bound (95 % wanted).
Then the rule ``--until-gain 1%``: after how many trials it stops, and how often less than 1 % was
left then.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search.replay import replay
from benchmarks.search.tables import Table, read_table
from tuner.records.trial import RemainingGain
from tuner.search.remaining import GainEstimator
from tuner.search.samplers import DEFAULT_SAMPLER

_AT = (20, 50, 100, 150)
_STEP = 5
_RULE = 0.01


@dataclass(frozen=True)
class Claim:
    """What was claimed after ``trials`` trials, and the gain that was left in truth."""

    trials: int
    claimed: RemainingGain
    left: float

    @property
    def held(self) -> bool:
        """Whether no more was left than the bound allows."""
        return self.left <= self.claimed.bound + 1e-9


def claims(table: Table, seed: int) -> list[Claim]:
    """Every estimate of one search."""
    run = replay(table, DEFAULT_SAMPLER, seed, trials=_AT[-1], starts=True)
    estimator = GainEstimator(table.space, seed)
    found = []
    for trials in range(_STEP, len(run.tried) + 1, _STEP):
        rows = [table.results[config] for config in run.tried[:trials]]
        valid = [(row.config, float(row.cycles)) for row in rows if row.cycles is not None]
        claimed = estimator.estimate(
            [config for config, _ in valid],
            [cycles for _, cycles in valid],
            [row.config for row in rows if row.cycles is None],
        )
        if claimed is not None:
            found.append(Claim(trials, claimed, 1 - 1 / run.at(trials)))
    return found


def main() -> int:
    """Prints how far the claims held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tables", nargs="+", type=Path, metavar="TABLE")
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    tables = [read_table(path) for path in given.tables]
    searches = [claims(table, seed) for table in tables for seed in range(given.seeds)]
    for trials in _AT:
        then = [claim for search in searches for claim in search if claim.trials == trials]
        if then:
            expected = statistics.fmean(c.claimed.expected for c in then)
            left = statistics.fmean(c.left for c in then)
            held = statistics.fmean(c.held for c in then)
            print(
                f"{trials:4} trials: expected {expected:.2%}, left {left:.2%}, "
                f"within the bound {held:.0%}"
            )
    stopped = [next((c for c in search if c.claimed.bound <= _RULE), None) for search in searches]
    ended = [claim for claim in stopped if claim is not None]
    if ended:
        print(
            f"until {_RULE:.0%}: {len(ended)} of {len(searches)} searches stop, "
            f"after {statistics.fmean(c.trials for c in ended):.0f} trials; "
            f"less was left in {statistics.fmean(c.left <= _RULE for c in ended):.0%}, "
            f"{statistics.fmean(c.left for c in ended):.2%} on average"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
