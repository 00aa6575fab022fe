"""Awkward shapes of kernels and everyday pipelines: how far above its own roofline each is.

Draws shapes by a seed: of one to a hundred and thirty rows, columns or channels, or of up to two
thousand, with no more work than the default shape has. Each is tuned in a few
trials under a contract. A shape is a cliff if its best takes more than 2.5 times its roofline and
800 model cycles besides; it fails if more than 5 in 100 are, or if the default, the textbook or the
best of one is anything but right, or cut off for being slow.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import tuner
from benchmarks.everyday.pipelines import PIPELINES
from benchmarks.harness import Report, add_names, add_search_options, searched_with, tell
from tuner.errors import UserError
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import Kernel, find_kernel, kernel_names
from tuner.measure.roofline import roofline_of
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.outcome import Outcome

TIMES, BESIDES_CYCLES = 2.5, 800
"""What a shape may take of its roofline, and besides."""
MOST_CLIFFS = 0.05
_FEW, _MANY = 130, 2000
_COLOURS = 4
_DRAWS = 1000


@dataclass(frozen=True)
class Row:
    """What became of a shape; ``wrong`` are outcomes other than ``ok`` by what had them."""

    shape: str
    roofline_cycles: float
    best_cycles: int | None
    wrong: Mapping[str, Outcome]

    @property
    def is_cliff(self) -> bool:
        """Whether it is too far above its roofline."""
        most = TIMES * self.roofline_cycles + BESIDES_CYCLES
        return self.best_cycles is None or self.best_cycles > most

    @property
    def times(self) -> float | None:
        """Its cycles, of those of its roofline."""
        return self.best_cycles / self.roofline_cycles if self.best_cycles else None


def drawn(
    kernel: Kernel, contract: Contract, dice: Random, sizes: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Parameters of ``kernel`` at a shape that it accepts under ``contract``: extents other than
    its ``sizes``, or the default ones, but where those are few, such as planes of colours."""
    usual = kernel.workload(sizes).params
    most = kernel.work(usual).total
    extents = [one for one in kernel.params if one.is_extent and not one.is_optional]
    for _ in range(_DRAWS):
        found = dict(usual)
        for one in extents:
            if one.minimum and usual[one.name] > _COLOURS:
                value = dice.randint(1, dice.choice((_FEW, _MANY))) // one.multiple * one.multiple
                found[one.name] = min(max(value, one.minimum), one.maximum)
        try:
            kernel.problem(found, contract, DEFAULT_TARGET)
        except UserError:
            continue
        if kernel.work(found).total <= most:
            return found
    raise UserError(
        f"no shape of {kernel.name} was found in {_DRAWS} draws", accepted="other seeds"
    )


def tuned(kernel: Kernel, shape: dict[str, int], contract: Contract, **options: Any) -> Row:
    """The row of a shape after a search with these ``options``."""
    problem = find_problem(kernel.name, shape, DEFAULT_TARGET, str(contract))
    label = " x ".join(
        str(shape[one.name]) for one in kernel.params if one.is_extent and shape[one.name]
    )
    least = roofline_of(problem).cycles
    result = tuner.tune(kernel.name, shape, contract=str(contract), store=MemoryStore(), **options)
    tried = {"default": result.default, "textbook": result.textbook, "best": result.best}
    wrong = {
        name: trial.outcome
        for name, trial in tried.items()
        if trial is not None and trial.outcome not in (Outcome.OK, Outcome.CUTOFF)
    }
    best = result.best.measurement if result.best else None
    return Row(label, least, best.cycles if best else None, wrong)


def rows(name: str, given: argparse.Namespace) -> Iterator[Row]:
    """Those of a kernel or pipeline."""
    contract = Contract(given.contract)
    everyday = PIPELINES.get(name)
    kernel = find_kernel(keep_pipeline(everyday.make()) if everyday else name)
    sizes = everyday.sizes if everyday else None
    dice = Random(f"{given.seed} {name}")
    for number in range(given.shapes):
        shape = drawn(kernel, contract, dice, sizes)
        yield tuned(kernel, shape, contract, **searched_with(given))
        tell(f"  {name}: {number + 1} of {given.shapes} shapes")


def options(parser: argparse.ArgumentParser) -> None:
    """Which kernels, how many shapes, and how they are searched."""
    add_names(parser, "NAME", [*kernel_names(), *PIPELINES])
    add_search_options(parser, trials=20)
    parser.add_argument("--shapes", type=int, default=60, help="of each (default: 60)")
    parser.add_argument("--contract", choices=list(map(str, Contract)), default="static")
    parser.add_argument("--all", action="store_true", help="tell each shape, not cliffs alone")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tells each cliff, and how many there are."""
    columns = {"kernel": "", "shape": "", "roofline": ",.0f", "best": ",", "times": ".1f"}
    report.table({**columns, "not right": ""}, f"Cliffs, model cycles, contract {given.contract}")
    cliffs = count = 0
    for name in given.names:
        for row in rows(name, given):
            count, cliffs = count + 1, cliffs + row.is_cliff
            wrong = ", ".join(f"{what}: {outcome}" for what, outcome in row.wrong.items())
            if given.all or row.is_cliff or wrong:
                cells = (row.shape, row.roofline_cycles, row.best_cycles, row.times)
                report.row(name, *cells, wrong)
            if wrong:
                report.fault(f"{name} at {row.shape}: {wrong}")
    report.remark(f"{cliffs} of {count} shapes are cliffs")
    report.bar("cliffs", cliffs / max(count, 1), most=MOST_CLIFFS)
