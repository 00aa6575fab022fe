"""The check of a package: its configs built, verified under every contract, and looked into."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.codegen import CodeGenerator, clang, starts_of
from tuner.codegen.packaged import PackageGenerator
from tuner.errors import CandidateError, UserError
from tuner.measure import open_measurer
from tuner.measure.explanation import Explanation
from tuner.measure.image import difference_in
from tuner.measure.measurer import Measurer
from tuner.packages.files import read_folder
from tuner.packages.kernel import PackageKernel, kept_here
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome

NAMED = ("default", "baseline")
"""The configs that are checked."""


@dataclass(frozen=True)
class Checked:
    """One config under one contract. ``explanation`` is ``None`` and ``error`` says why if it
    failed; ``outcome`` is that of a trial."""

    name: str
    candidate: Candidate
    outcome: str
    error: str
    explanation: Explanation | None

    @property
    def problem(self) -> Problem:
        """The problem that it was built for."""
        return self.candidate.problem

    def as_dict(self) -> dict[str, Any]:
        """JSON form: figures, or what differs where."""
        found = self.explanation
        totals = None if found is None else found.totals
        return {
            "config_name": self.name,
            "config": self.candidate.config.as_dict(),
            "contract": self.problem.contract.value,
            "outcome": self.outcome,
            "error": self.error or None,
            "difference": difference_in(self.error),
            "cycles": None if found is None else found.cycles,
            "share_of_roofline": None
            if found is None
            else round(found.roofline.cycles / found.cycles, 4),
            "packets": None if totals is None else totals.packets,
            "vector_packets": None if totals is None else totals.vector_packets,
            "vector_instructions": None if totals is None else totals.vector_instructions,
            "hot": [] if found is None else _hot(found),
        }


_HOT_REGIONS = 3


def _hot(explanation: Explanation) -> list[dict[str, Any]]:
    """The most expensive loops with their packets."""
    return [region.as_dict(explanation.cycles) for region in explanation.regions[:_HOT_REGIONS]]


def checked(
    kernel: PackageKernel, target: Target, names: tuple[str, ...] = NAMED
) -> Iterator[Checked]:
    """The configs called ``names`` under each contract of the package, strongest first.

    ``UserError`` for what stops all of them, such as a reference that fails.
    """
    contracts = [one for one in Contract if one.value in kernel.package.manifest.contracts]
    with PackageGenerator(1) as generator, open_measurer("qemu") as measurer:
        measurer.require(target)
        for contract in reversed(contracts):
            try:
                problem = kernel.problem(None, contract, target)
            except UserError as error:
                raise UserError(
                    f"contract {contract} with the parameters by default: {error.message}",
                    accepted=error.accepted,
                    next_step="change the defaults, or leave it out of contracts in kernel.toml",
                ) from None
            starts = starts_of(generator.name, kernel, problem)
            done: dict[Any, Checked] = {}
            for name in (name for name in names if name in starts):
                candidate = Candidate(problem, starts[name], generator.name)
                if candidate.config not in done:
                    done[candidate.config] = _checked(name, candidate, generator, measurer)
                    yield done[candidate.config]


def _checked(
    name: str, candidate: Candidate, generator: CodeGenerator, measurer: Measurer
) -> Checked:
    try:
        artifact = generator.compile(candidate)
        explanation = measurer.explain(candidate.problem, artifact)
        measurer.confirm(candidate.problem, artifact)
    except CandidateError as error:
        told = error.message
        if error.outcome is Outcome.WRONG_OUTPUT:
            is_miscompiled = clang.is_miscompiled(
                candidate,
                generator.compile(candidate),
                generator.compile,
                lambda other, made: measurer.measure(other.problem, made),
            )
            blame = "" if is_miscompiled else generator.blame(candidate)
            told = f"{clang.MISCOMPILED}; {told}" if is_miscompiled else told
            told = f"{told}; {blame}" if blame else told
        return Checked(name, candidate, error.outcome.value, told, None)
    return Checked(name, candidate, "ok", "", explanation)


@dataclass(frozen=True)
class Saved:
    """A package after a save: its config ``checked``, or the ``fault`` that stops it before; how
    long that took; and the last one that could be measured."""

    checked: Checked | None
    fault: UserError | None
    seconds: float
    before: Checked | None


def watched(
    folder: Path,
    target: Target,
    *,
    name: str = "default",
    contract: Contract | None = None,
    stop: threading.Event,
) -> Generator[Saved, None, None]:
    """Measures the config called ``name`` now, and after each save of a file of the package, until
    ``stop``. Under the package's strongest contract unless another is given."""
    stamp: object = None
    before: Checked | None = None
    with PackageGenerator(1) as generator, open_measurer("qemu") as measurer:
        measurer.require(target)
        while not stop.is_set():
            found = _stamp(folder)
            if found == stamp:
                stop.wait(_LOOK_S)
                continue
            stamp, begun = found, time.monotonic()
            try:
                kernel = kept_here(read_folder(folder))
                kept = [Contract(one) for one in kernel.package.manifest.contracts]
                strongest = max(kept, key=lambda one: one.level)
                problem = kernel.problem(None, contract or strongest, target)
                starts = starts_of(generator.name, kernel, problem)
                config = starts.get(name, starts["default"])
                checked = _checked(
                    name, Candidate(problem, config, generator.name), generator, measurer
                )
            except UserError as error:
                yield Saved(None, error, time.monotonic() - begun, before)
                continue
            yield Saved(checked, None, time.monotonic() - begun, before)
            before = checked if checked.explanation is not None else before


_LOOK_S = 0.05
"""Between looks at the folder."""


def _stamp(folder: Path) -> list[tuple[str, int, int]]:
    """Changes with every save of a file in ``folder``."""
    found = []
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(OSError):  # an editor's file, gone again
            if path.is_file():
                stat = path.stat()
                found.append((str(path), stat.st_mtime_ns, stat.st_size))
    return found
