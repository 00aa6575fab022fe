"""How much the order of schedules depends on what the timing model assumes.

For each kernel a fixed set of schedules (seeded) is run once. Each cost that nobody has published,
those that are assumed to be nothing included, is then set to the least and to the most that the
model's file gives for it, from the events of that run. Numbers that decide which events happen have
no bounds there: they are halved and doubled in the simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

import numpy as np

from tuner.codegen import CodeGenerator
from tuner.errors import CandidateError
from tuner.jobs.tuning import find_problem
from tuner.kernels import find_kernel
from tuner.measure.cases import CaseSet, cases_of
from tuner.measure.image import image_of
from tuner.measure.qemu.cycles import cycles_of
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.measurer import TIMEOUT_S
from tuner.measure.qemu.model import Parameters, TimingModel, find_model
from tuner.measure.qemu.session import Caches, Orders
from tuner.measure.qemu.simulation import simulate
from tuner.measure.qemu.uncertain import fittable, plausible
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config

SEED = 20
CACHE_STATES: tuple[Caches, ...] = ("warm", "cold")
ENDS = ("least", "most")
_ATTEMPTS = 1000


@dataclass(frozen=True)
class ScheduleSet:
    """Compiled schedules of one kernel, each known to give the right output."""

    kernel: str
    problem: Problem
    cases: CaseSet
    artifacts: tuple[Artifact, ...]

    def events(self, model: TimingModel, caches: Caches) -> list[Events]:
        """Runs them all."""
        orders = Orders(model, self.problem.target, caches=caches)
        image = image_of(self.cases, self.problem.target, orders.timed_call - 1)
        return [simulate(a, image, orders, TIMEOUT_S).timing.events for a in self.artifacts]

    def cycles(self, events: list[Events], parameters: Parameters) -> list[float]:
        """What the events cost."""
        contexts = self.problem.target.hvx_contexts
        return [cycles_of(e, parameters, contexts).total for e in events]


def schedules(kernel: str, count: int, generator: CodeGenerator) -> ScheduleSet:
    """``count`` schedules of ``kernel``: default, textbook and random ones, the same every time.

    Only the timed case is run: a schedule that does not compile or gives a wrong result is left
    out.
    """
    problem = find_problem(kernel, None, "hexagon-v66", "static")
    cases = CaseSet(cases_of(problem).cases[:1])
    image = image_of(cases, problem.target)
    orders = Orders(find_model(problem.target.arch), problem.target, caches="none")

    def good() -> Iterator[Artifact]:
        seen: set[str] = set()
        for config in _configs(problem):
            try:
                artifact = generator.compile(Candidate(problem, config))
                if artifact.digest in seen:
                    continue
                seen.add(artifact.digest)
                simulate(artifact, image, orders, TIMEOUT_S)
            except CandidateError:
                continue
            yield artifact

    return ScheduleSet(kernel, problem, cases, tuple(islice(good(), count)))


def _configs(problem: Problem) -> Iterator[Config]:
    kernel = find_kernel(problem.workload.kernel)
    yield kernel.default_config(problem)
    yield kernel.textbook_config(problem)
    random = Random(SEED)
    space = kernel.space(problem)
    for _ in range(_ATTEMPTS):
        yield space.sample(random)


@dataclass(frozen=True)
class Change:
    """What an assumption does to the schedules of one kernel: Kendall's ``tau`` between the orders
    with and without it, and the ``loss`` of the schedule that was the best, as a share of the
    cycles of the one that is then."""

    tau: float
    loss: float


Changes = Mapping[str, list[Change]]
"""By assumption, one for each kernel."""


def print_sensitivity(kernels: list[str], count: int, generator: CodeGenerator) -> None:
    """Measures and prints one line for each assumption."""
    from rich.console import Console
    from rich.table import Table

    sets = [schedules(kernel, count, generator) for kernel in kernels]
    sizes = ", ".join(f"{s.kernel} {len(s.artifacts)}" for s in sets)
    title = f"Kendall's tau, least and mean over kernels; most that the best loses ({sizes})"
    table = Table("assumed", "from", "to", title=title)
    columns: list[Changes] = []
    for caches in CACHE_STATES:
        for end in ENDS:
            table.add_column(f"{caches}, {end}", justify="right")
        columns += _changes(sets, caches)
    model = find_model(sets[0].problem.target.arch)
    for name, (least, most) in {**_cost_ends(model), **_size_ends(model)}.items():
        shown = (_shown(column[name]) for column in columns)
        table.add_row(name, f"{least:g}", f"{most:g}", *shown)
    Console(width=140).print(table)


def _shown(found: list[Change]) -> str:
    taus = [one.tau for one in found]
    return f"{min(taus):.2f} {np.mean(taus):.2f} {max(one.loss for one in found):.0%}"


def _changes(sets: list[ScheduleSet], caches: Caches) -> tuple[Changes, Changes]:
    """With every assumption at its least, and at its most."""
    found: tuple[dict[str, list[Change]], dict[str, list[Change]]] = ({}, {})
    for each in sets:
        model = find_model(each.problem.target.arch)
        events = each.events(model, caches)
        nominal = each.cycles(events, model.parameters)
        for name, ends in _cost_ends(model).items():
            for value, changes in zip(ends, found, strict=True):
                changed = replace(model.parameters, **{name: value})
                then = each.cycles(events, changed)
                changes.setdefault(name, []).append(_change(nominal, then))
        for name, sizes in _size_ends(model).items():
            for size, changes in zip(sizes, found, strict=True):
                hierarchy = replace(model.hierarchy, **{name: size})
                again = each.events(replace(model, hierarchy=hierarchy), caches)
                then = each.cycles(again, model.parameters)
                changes.setdefault(name, []).append(_change(nominal, then))
    return found


def _change(nominal: list[float], then: list[float]) -> Change:
    best = min(range(len(nominal)), key=nominal.__getitem__)
    return Change(tau(nominal, then), then[best] / min(then) - 1)


def _cost_ends(model: TimingModel) -> Mapping[str, tuple[float, float]]:
    return {name: plausible(model.specs[name]) for name in fittable(model.specs)}


def _size_ends(model: TimingModel) -> Mapping[str, tuple[int, int]]:
    """Assumed sizes halved and doubled."""
    return {name: (max(1, size // 2), 2 * size) for name, size in _assumed_sizes(model).items()}


def _assumed_sizes(model: TimingModel) -> Mapping[str, int]:
    return {
        name: getattr(model.hierarchy, name)
        for name, source in model.hierarchy_sources.items()
        if source.startswith("assumed")
    }


def tau(one: list[float], other: list[float]) -> float:
    """Kendall's tau-b of two orders: 1 if they agree on every pair."""
    from scipy.stats import kendalltau

    return float(kendalltau(one, other).statistic)
