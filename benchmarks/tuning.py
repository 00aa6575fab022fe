"""Tunes every kernel and prints: default, textbook and best, and where the wall time went.

    python -m benchmarks.tuning [--trials 200] [--contract static] [--workers N]
        [--sampler surrogate] [KERNEL ...]

"own share" is the part of the workers' wall time that was not spent in compile, link or run: what
the tuner itself costs. The exit status is 1 if a best is slower than the textbook schedule of the
same run or an own share is above the limit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import db
import tuner
from tuner.jobs.tuning import default_workers
from tuner.kernels import find_kernel, kernel_names
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.samplers import DEFAULT_SAMPLER

OWN_SHARE_LIMIT = 0.15


@dataclass(frozen=True)
class Row:
    """One kernel's line of the table."""

    label: str
    default: Trial | None
    textbook: Trial | None
    best: Trial | None
    best_number: int
    share_of_peak: float
    valid_share: float
    trials: int
    wall_s: float
    compile_s: float
    link_s: float
    run_s: float
    own_share: float
    cut_off: int
    cut_off_s: float
    """Runs stopped early, and what they took until then."""

    @property
    def holds(self) -> bool:
        """Whether both bars are met."""
        return (
            self.best is not None
            and self.textbook is not None
            and cycles(self.best) <= cycles(self.textbook)
            and self.own_share <= OWN_SHARE_LIMIT
        )


def cycles(trial: Trial | None) -> float:
    """Model cycles of a trial; infinite where it has none."""
    return trial.measurement.cycles if trial and trial.measurement else float("inf")


def packets(trial: Trial | None) -> float:
    """Packets of a trial; infinite where it has none."""
    return trial.measurement.packets if trial and trial.measurement else float("inf")


def tune(kernel: str, *, trials: int, contract: str, workers: int, seed: int, sampler: str) -> Row:
    """Tunes one kernel at its default shape, in a database of its own."""
    with (
        tempfile.TemporaryDirectory() as folder,
        db.open_store(f"sqlite:///{Path(folder) / 'bench.sqlite'}") as store,
    ):
        result = tuner.tune(
            kernel,
            store=store,
            trials=trials,
            contract=contract,
            workers=workers,
            seed=seed,
            sampler=sampler,
        )
        rows = store.trials(result.job.id)
    problem = result.job.spec.problem
    wall_s = result.job.spent_s
    parts = [
        sum(getattr(t.timings, name) for t in rows) for name in ("compile_s", "link_s", "run_s")
    ]
    cut_off = [t.timings.run_s for t in rows if t.outcome is Outcome.CUTOFF]
    peak = find_kernel(kernel).work(problem.workload.params).peak_cycles(problem.target)
    return Row(
        label=problem.workload.label,
        default=result.default,
        textbook=result.textbook,
        best=result.best,
        best_number=result.best.number if result.best else -1,
        share_of_peak=peak / cycles(result.best),
        valid_share=result.outcomes.get("ok", 0) / len(rows),
        trials=len(rows),
        wall_s=wall_s,
        compile_s=parts[0],
        link_s=parts[1],
        run_s=parts[2],
        own_share=1 - sum(parts) / (workers * wall_s),
        cut_off=len(cut_off),
        cut_off_s=sum(cut_off),
    )


def print_rows(rows: list[Row]) -> None:
    """The table, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table("workload", title="cycles (packets)")
    for heading in (
        "default", "textbook", "best", "at trial", "of peak", "valid",
        "wall s", "compile s", "link s", "run s", "own share",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.label,
            *(
                f"{cycles(t):,.0f} ({packets(t):,.0f})"
                for t in (row.default, row.textbook, row.best)
            ),
            str(row.best_number),
            f"{row.share_of_peak:.0%}",
            f"{row.valid_share:.0%}",
            *(f"{s:.1f}" for s in (row.wall_s, row.compile_s, row.link_s, row.run_s)),
            f"{row.own_share:.1%}" + ("" if row.holds else " !"),
        )
    console = Console(width=160)
    console.print(table)
    spent_s = sum(row.compile_s + row.link_s + row.run_s for row in rows)
    console.print(
        f"cut off: {sum(r.cut_off for r in rows)} of {sum(r.trials for r in rows)} trials, "
        f"{sum(r.cut_off_s for r in rows) / spent_s:.2%} of compile, link and run"
    )


def main() -> int:
    """Runs the benchmark with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kernels", nargs="*", default=kernel_names())
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--contract", default="static")
    parser.add_argument("--workers", type=int, default=default_workers())
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sampler", default=DEFAULT_SAMPLER)
    given = parser.parse_args()
    rows = []
    for kernel in given.kernels:
        rows.append(
            tune(
                kernel,
                trials=given.trials,
                contract=given.contract,
                workers=given.workers,
                seed=given.seed,
                sampler=given.sampler,
            )
        )
        print_rows(rows[-1:])
    print_rows(rows)
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
