"""How much the order of schedules depends on what the timing model assumes.

For each kernel a fixed set of schedules (seeded) is run once. Costs are changed afterwards, from
the events of that run; numbers that decide which events happen are changed in the simulation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

import numpy as np

from tuner.codegen import CodeGenerator
from tuner.errors import CandidateError
from tuner.kernels import find_kernel
from tuner.measure.cases import CaseSet, cases_of
from tuner.measure.image import image_of
from tuner.measure.qemu.cycles import cycles_of
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.measurer import TIMEOUT_S
from tuner.measure.qemu.model import Parameters, TimingModel, find_model
from tuner.measure.qemu.session import Caches, Orders
from tuner.measure.qemu.simulation import simulate
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config
from tuner.tuning import find_problem

SEED = 20
CACHE_STATES: tuple[Caches, ...] = ("warm", "cold")
FACTORS = (0.5, 2.0)
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


def print_sensitivity(kernels: list[str], count: int, generator: CodeGenerator) -> None:
    """Measures and prints one line for each assumption."""
    from rich.console import Console
    from rich.table import Table

    sets = [schedules(kernel, count, generator) for kernel in kernels]
    sizes = ", ".join(f"{s.kernel} {len(s.artifacts)}" for s in sets)
    table = Table("assumed", title=f"Kendall's tau, least and mean over kernels ({sizes})")
    for caches in CACHE_STATES:
        for factor in FACTORS:
            table.add_column(f"{caches} x {factor:g}", justify="right")
    columns = [_taus(sets, caches, factor) for caches in CACHE_STATES for factor in FACTORS]
    for name in columns[0]:
        table.add_row(name, *(_shown(column[name]) for column in columns))
    Console(width=120).print(table)


def _shown(taus: list[float]) -> str:
    return f"{min(taus):.2f} {np.mean(taus):.2f}"


def _taus(sets: list[ScheduleSet], caches: Caches, factor: float) -> dict[str, list[float]]:
    """For each assumption, the tau of each set."""
    found: dict[str, list[float]] = {}
    for each in sets:
        model = find_model(each.problem.target.arch)
        events = each.events(model, caches)
        nominal = each.cycles(events, model.parameters)
        for name, value in _assumed_costs(model).items():
            changed = replace(model.parameters, **{name: value * factor})
            found.setdefault(name, []).append(tau(nominal, each.cycles(events, changed)))
        for name, value in _assumed_sizes(model).items():
            hierarchy = replace(model.hierarchy, **{name: max(1, int(value * factor))})
            again = each.events(replace(model, hierarchy=hierarchy), caches)
            changed_cycles = each.cycles(again, model.parameters)
            found.setdefault(f"{name} (simulated)", []).append(tau(nominal, changed_cycles))
    return found


def _assumed_costs(model: TimingModel) -> Mapping[str, float]:
    return {name: s.value for name, s in model.specs.items() if s.assumed and s.value}


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
