"""Public suites of Generators: their own schedules beside the best that a search finds.

Reads the Generators ``NAME_generator.cpp`` in a folder that a person has fetched, such as
``benchmarks/hexagon/halide`` of uwplse/rake or akothen/Hydride on GitHub; each becomes a package.
Prints model cycles on the default target, contract static. Images have 1024 x 64 elements, or
1024 x 128 where their own schedule needs that; what has other dimensions has its defaults. It fails
if a Generator is refused, or its own schedule is ahead.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tuner
from benchmarks.harness import Report, add_search_options, searched_with
from tuner.errors import UserError
from tuner.keeping.memory_store import MemoryStore
from tuner.packages.files import read_folder
from tuner.packages.from_generator import write_package
from tuner.packages.kernel import kept_here
from tuner.records.candidate import Measurement
from tuner.records.trial import Trial

_ENDING = "_generator.cpp"
_IMAGES = ((1024, 64), (1024, 128))
_SETTLED: Mapping[str, Mapping[str, str]] = {
    "fully_connected": {"output.type": "uint8"},
}
"""GeneratorParams for what they leave open, as the Makefile of the suites has them."""


@dataclass(frozen=True)
class Row:
    """What became of a Generator; ``reason`` says why a figure is missing."""

    label: str = ""
    own: Measurement | None = None
    best: Measurement | None = None
    reason: str = ""

    @property
    def speedup(self) -> float | None:
        """Of the best, against its own schedule."""
        return self.own.cycles / self.best.cycles if self.own and self.best else None


def tuned(source: Path, **options: Any) -> Row:
    """The row of the Generator in ``source`` after a search with these ``options``."""
    name = _name(source)
    try:
        with tempfile.TemporaryDirectory(prefix="hvxtune-suites-") as folder:
            write_package(source, Path(folder) / name, params=_SETTLED.get(name))
            kernel = kept_here(read_folder(Path(folder) / name))
        sizes = [param.name for param in kernel.params]
        is_image = len(sizes) == len(_IMAGES[0])
        for shape in _IMAGES if is_image else [()]:
            params = dict(zip(sizes, shape, strict=False))
            result = tuner.tune(kernel.name, params, store=MemoryStore(), **options)
            own = result.baseline
            if own is None or own.measurement is not None:
                break
    except UserError as error:
        return Row(reason=f"refused: {error}")
    reason = "" if own is None or own.error is None else f"{own.outcome}: {own.error}"
    label = " x ".join(map(str, shape))
    return Row(label, _measurement(own), _measurement(result.best), reason)


def _measurement(trial: Trial | None) -> Measurement | None:
    return None if trial is None else trial.measurement


def _name(source: Path) -> str:
    return source.name.removesuffix(_ENDING)


def options(parser: argparse.ArgumentParser) -> None:
    """Where the suite is, which of it, and how it is searched."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all that are there")
    add_search_options(parser, trials=40)
    parser.set_defaults(generator="package")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the Generators, and tells a row for each."""
    sources = sorted(given.folder.rglob(f"*{_ENDING}"))
    wanted = [one for one in sources if not given.names or _name(one) in given.names]
    if not wanted:
        report.fault(f"{given.folder}: no {' or '.join(given.names)}{_ENDING} below it")
    report.table({"Generator": "", "size": "", "own": "", "best": "", "times": ".2f", "why": ""})
    for source in wanted:
        row = tuned(source, **searched_with(given))
        counts = [one.cycles_text if one else "-" for one in (row.own, row.best)]
        report.row(_name(source), row.label, *counts, row.speedup, row.reason)
        if row.best is None or (row.speedup or 1.0) < 1.0:
            report.fault(f"{_name(source)}: {row.reason or 'its own schedule is ahead'}")
