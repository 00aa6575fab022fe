"""Public suites of Generators: their own schedules beside the best that a search finds.

Reads the Generators ``NAME_generator.cpp`` in a folder that a person has fetched, such as
``benchmarks/hexagon/halide`` of uwplse/rake or akothen/Hydride on GitHub; each becomes a package.
Prints model cycles on the default target under each contract; of its own schedule's GeneratorParams
the best count. Where that schedule is right under a stronger contract only (of padded rows, as for
aligned loads), its count is for that one, which is told. Images have 1024 x 64 elements, or 1024 x
128 where their own schedule needs that; what has other dimensions has its defaults, mostly. It
fails if a Generator is refused, or its own schedule is ahead.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Any

import tuner
from benchmarks.harness import Report, add_search_options, searched_with
from tuner.codegen.packaged import HAND, SCHEDULE, PackageGenerator
from tuner.errors import CandidateError, UserError
from tuner.keeping.memory_store import MemoryStore
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.packages.files import read_folder
from tuner.packages.from_generator import write_package
from tuner.packages.kernel import PackageKernel, kept_here
from tuner.problem.contract import Contract
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Measurement

_ENDING = "_generator.cpp"
_IMAGES = ((1024, 64), (1024, 128))
_CONTRACTS = (Contract.STATIC, Contract.NONE)
_PADDED = (Contract.STRIDE, Contract.EXTENT)
_COLUMNS = dict.fromkeys(
    ["Generator", "size", "contract", "own", "best", "times", "by", "why"], ""
) | {"times": ".2f"}
_MOST_OWN = 16
_IS_OWN = f"{SCHEDULE} == '{HAND}'"
_SETTLED: Mapping[str, Mapping[str, str]] = {
    "fully_connected": {"output.type": "uint8"},
}
"""GeneratorParams for what they leave open, as the Makefile of the suites has them."""
_SIZES: Mapping[str, Sequence[tuple[int, ...]]] = {"camera_pipe": [(256, 64, 3)]}
"""Of what has three colours, in strips that its own schedule takes."""


@dataclass(frozen=True)
class Row:
    """What became of a Generator under a contract; ``by`` makes the best code, ``reason`` says why
    a figure is missing, or under which contract it is."""

    label: str = ""
    contract: str = ""
    own: Measurement | None = None
    best: Measurement | None = None
    by: str = ""
    reason: str = ""

    @property
    def speedup(self) -> float | None:
        """Of the best, against its own schedule."""
        return self.own.cycles / self.best.cycles if self.own and self.best else None


def tuned(source: Path, contracts: Sequence[Contract], **options: Any) -> Iterator[Row]:
    """The rows of the Generator in ``source`` after searches with these ``options``."""
    name = _name(source)
    try:
        with tempfile.TemporaryDirectory(prefix="hvxtune-suites-") as folder:
            write_package(source, Path(folder) / name, params=_SETTLED.get(name))
            kernel = kept_here(read_folder(Path(folder) / name))
    except UserError as error:
        yield Row(reason=f"refused: {error}")
        return
    for contract in contracts:
        shapes = _IMAGES if len(kernel.params) == len(_IMAGES[0]) else _SIZES.get(name, [()])
        yield _row(kernel, contract, shapes, options)


def _row(
    kernel: PackageKernel,
    contract: Contract,
    shapes: Sequence[tuple[int, ...]],
    options: Mapping[str, Any],
) -> Row:
    sizes = [param.name for param in kernel.params]
    own, reason = None, ""
    for allowed, shape in product(dict.fromkeys([contract, *_PADDED]), shapes):
        params = dict(zip(sizes, shape, strict=False))
        own, refused = _own(kernel, params, allowed)
        reason = reason or refused
        if own is not None:
            reason = "" if allowed is contract else f"{reason}; its count is under {allowed}"
            break
    else:
        params = dict(zip(sizes, shapes[0], strict=False))
    label = " x ".join(map(str, params.values()))
    try:
        result = tuner.tune(
            kernel.name, params, contract=str(contract), store=MemoryStore(), **options
        )
    except UserError as error:
        return Row(label, contract, own, reason=f"refused: {error}")
    if result.best is None:
        return Row(label, contract, own, reason=reason or "no candidate is right")
    by = str(result.best.config.get(SCHEDULE))
    return Row(label, contract, own, result.best.measurement, by, reason)


def _own(
    kernel: PackageKernel, params: Mapping[str, int], contract: Contract
) -> tuple[Measurement | None, str]:
    """The Generator's own schedule at its best GeneratorParams, or why none of them is right."""
    found: list[Measurement] = []
    reason = ""
    try:
        problem = kernel.problem(params, contract, find_target(DEFAULT_TARGET))
        space = kernel.space(problem)
    except UserError as error:
        return None, f"its own schedule under {contract}: {error}"
    knobs = [one for one in space.knobs if one.when in (None, _IS_OWN) and one.name != SCHEDULE]
    with PackageGenerator(1) as generator, QemuMeasurer() as measurer:
        for values in islice(product(*(one.choices for one in knobs)), _MOST_OWN):
            chosen = dict(zip((one.name for one in knobs), values, strict=True))
            config = space.nearest_config({SCHEDULE: HAND, **chosen})
            try:
                made = generator.compile(Candidate(problem, config, generator.name))
                found.append(measurer.measure(problem, made).measurement)
            except CandidateError as error:
                reason = f"its own schedule under {contract}: {error.outcome}: {error.message}"
            except UserError as error:
                return None, f"its own schedule under {contract}: {error}"
    return (min(found, key=lambda one: one.cycles), "") if found else (None, reason)


def _name(source: Path) -> str:
    return source.name.removesuffix(_ENDING)


def options(parser: argparse.ArgumentParser) -> None:
    """Where the suite is, which of it, and how it is searched."""
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all that are there")
    parser.add_argument("--contracts", nargs="*", type=Contract, default=list(_CONTRACTS))
    add_search_options(parser, trials=40)
    parser.set_defaults(generator="package")


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the Generators, and tells a row for each."""
    sources = sorted(given.folder.rglob(f"*{_ENDING}"))
    wanted = [one for one in sources if not given.names or _name(one) in given.names]
    if not wanted:
        report.fault(f"{given.folder}: no {' or '.join(given.names)}{_ENDING} below it")
    report.table(_COLUMNS)
    for source in wanted:
        for row in tuned(source, given.contracts, **searched_with(given)):
            counts = [one.cycles_text if one else "-" for one in (row.own, row.best)]
            report.row(
                _name(source), row.label, row.contract, *counts, row.speedup, row.by, row.reason
            )
            if row.best is None or (row.speedup or 1.0) < 1.0:
                report.fault(f"{_name(source)}: {row.reason or 'its own schedule is ahead'}")
