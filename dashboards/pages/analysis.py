"""The analysis of a job's trials: which knobs matter, what fails, what was left untried.

The only page that loads Plotly. What takes long to work out comes a moment after the page, and is
kept for as long as no trial changes it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from statistics import fmean, median
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from dashboards.job_view import JobView
from dashboards.kept import kept_of
from dashboards.pages.job import find_view
from dashboards.session import viewing
from dashboards.templating import render
from db.jobs.trials import AnalysedTrial, analysed_trials
from db.sql_store import SqlStore
from service.app_state import store_of
from service.auth.caller import Scope
from tuner.codegen.generator import GENERATOR
from tuner.problem.objectives import DEFAULT_OBJECTIVES, figures_of, front_of
from tuner.records.outcome import Outcome
from tuner.space import Space
from tuner.space.config import KnobValue

router = APIRouter(dependencies=[Depends(viewing(Scope.READ))])

MOST_TRIALS = 20_000
NOISE_ROWS = 20


def noise(trials: list[AnalysedTrial]) -> list[dict[str, object]]:
    """The fastest trials that were measured more than once: each sample relative to their
    median, from -1 to 1 for the widest of them."""
    repeated = sorted(
        (trial for trial in trials if len(trial.samples) > 1), key=lambda trial: trial.cycles or 0
    )[:NOISE_ROWS]
    rows = []
    for trial in repeated:
        middle = sorted(trial.samples)[len(trial.samples) // 2]
        offsets = [sample / middle - 1 for sample in trial.samples]
        rows.append({"trial": trial.number, "offsets": offsets, "middle": middle})
    widest = max((abs(o) for row in rows for o in row["offsets"]), default=0.0) or 1.0  # type: ignore[attr-defined]
    return [
        {**row, "places": [100 + 95 * o / widest for o in row["offsets"]], "widest": widest}  # type: ignore[attr-defined]
        for row in rows
    ]


LEAST_TRIALS = 12
"""Fewer measured trials say nothing about importance."""
MOST_RANKED = 1000
MOST_LINES = 240
MOST_DOTS = 600
MOST_BARS = 300


@dataclass(frozen=True)
class ValueFacts:
    """The outcomes of the trials with one value of a knob."""

    value: KnobValue
    trials: int
    failed: int
    best: int | None
    middle: float | None
    outcomes: Mapping[str, int]

    @property
    def failed_share(self) -> float:
        """The share of trials that failed; 0 without trials."""
        return self.failed / self.trials if self.trials else 0.0


@dataclass(frozen=True)
class KnobFacts:
    """A knob with every choice it has, among the trials of one generator. ``importance`` is over
    the ``measured`` trials that set it; of knobs that the same trials set it adds up to 1."""

    name: str
    doc: str
    measured: int
    importance: float | None
    values: tuple[ValueFacts, ...]

    @property
    def tried(self) -> int:
        """Choices that were tried at least once."""
        return sum(1 for each in self.values if each.trials)


@dataclass(frozen=True)
class GeneratorFacts:
    """The trials of one code generator, whose ``name`` is empty in a job with one alone, and its
    knobs, the most important first."""

    name: str
    trials: int
    measured: int
    best: int | None
    knobs: tuple[KnobFacts, ...]

    @property
    def ranked(self) -> list[KnobFacts]:
        """The knobs of which something can be said."""
        return [one for one in self.knobs if one.importance is not None]


@router.get("/jobs/{job_id}/analysis")
def analysis(
    request: Request, job_id: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """The page; its figures at once if they are kept."""
    view = find_view(store, job_id)
    return render(request, "analysis.html", view=view, figures=kept_of(request).find(_key(view)))


@router.get("/jobs/{job_id}/analysis/figures")
def figures(
    request: Request, job_id: str, store: Annotated[SqlStore, Depends(store_of)]
) -> Response:
    """The figures alone, worked out now if they are not kept."""
    view = find_view(store, job_id)
    made = kept_of(request).get(_key(view), lambda: figures_of_job(store, view))
    return render(request, "analysis_figures.html", view=view, figures=made)


def _key(view: JobView) -> tuple[str, str, str]:
    return "analysis", view.id, view.version


@dataclass(frozen=True)
class AnalysisFigures:
    """Tables and charts of one state of a job. ``share`` of the variance of the logarithms of
    cycles is between the generators; knobs that are ``unset`` are so in every trial. ``analysed``
    is how many of its finished trials they are about: the last ones."""

    facts: Sequence[GeneratorFacts]
    share: float | None
    unset: Sequence[str]
    analysed: int
    measured: int
    distinct: int
    noise: Sequence[Mapping[str, Any]]
    plots: Mapping[str, Any]
    least: int = LEAST_TRIALS
    ranked: int = MOST_RANKED

    @property
    def failures(self) -> bool:
        """Whether a trial failed."""
        return any(v.failed for one in self.facts for knob in one.knobs for v in knob.values)


def figures_of_job(store: SqlStore, view: JobView) -> AnalysisFigures:
    """The analysis of the last :data:`MOST_TRIALS` trials of a job."""
    trials = analysed_trials(store, view.id, MOST_TRIALS)
    finished = [trial for trial in trials if trial.outcome is not None]
    space = store.space(view.id)
    facts = generator_facts(space, finished)
    told = {knob.name for one in facts for knob in one.knobs}
    return AnalysisFigures(
        facts=facts,
        share=share_of_generators(finished),
        unset=[knob.name for knob in space.knobs if knob.name not in told | {GENERATOR}],
        analysed=len(finished),
        measured=sum(1 for trial in finished if trial.cycles is not None),
        distinct=len({trial.config_digest for trial in finished}),
        noise=noise(finished),
        plots={
            **plots(space, finished, facts, view.job.spec.objectives),
            "lanes": lanes(trials, time.time()),
        },
    )


HARMLESS = (Outcome.OK, Outcome.CUTOFF)
"""Outcomes other than failures: a candidate that was cut off works, but is slow."""


def _by_generator(trials: Sequence[AnalysedTrial]) -> dict[str, list[AnalysedTrial]]:
    """Those of each code generator, the one with the most first; all under an empty name where
    there is no choice of it."""
    groups: dict[str, list[AnalysedTrial]] = {}
    for trial in trials:
        groups.setdefault(str(trial.config.get(GENERATOR, "")), []).append(trial)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def share_of_generators(trials: Sequence[AnalysedTrial]) -> float | None:
    """The share of the variance of log cycles that lies between generators (eta squared); ``None``
    for one generator, or too few trials."""
    measured = [trial for trial in trials if trial.cycles]
    groups = _by_generator(measured)
    every = [math.log(trial.cycles or 1) for trial in measured]
    if len(groups) < 2 or len(every) < LEAST_TRIALS or len(set(every)) < 2:
        return None
    middle = fmean(every)
    between = sum(
        len(group) * (fmean(math.log(one.cycles or 1) for one in group) - middle) ** 2
        for group in groups.values()
    )
    return between / sum((one - middle) ** 2 for one in every)


def generator_facts(space: Space, trials: Sequence[AnalysedTrial]) -> list[GeneratorFacts]:
    """The generators and their knobs, with the outcomes of each of their choices."""
    return [
        GeneratorFacts(
            name=name,
            trials=len(group),
            measured=sum(1 for one in group if one.cycles is not None),
            best=min((one.cycles for one in group if one.cycles is not None), default=None),
            knobs=tuple(_knob_facts(space, group)),
        )
        for name, group in _by_generator(trials).items()
    ]


def _knob_facts(space: Space, group: Sequence[AnalysedTrial]) -> list[KnobFacts]:
    """The knobs that the trials of a generator set, the most important first."""
    importance = importances(space, group)
    found = []
    for knob in space.knobs:
        name = knob.name
        own = [trial for trial in group if name in trial.config]
        if not own or name == GENERATOR:
            continue
        values: dict[KnobValue, list[AnalysedTrial]] = {choice: [] for choice in knob.choices}
        for trial in own:
            values.setdefault(trial.config[name], []).append(trial)
        facts = tuple(_value_facts(value, some) for value, some in values.items())
        measured = sum(1 for trial in own if trial.cycles is not None)
        found.append(KnobFacts(name, knob.doc, measured, importance.get(name), facts))
    return sorted(found, key=lambda facts: -(facts.importance or 0.0))


def _value_facts(value: KnobValue, group: Sequence[AnalysedTrial]) -> ValueFacts:
    cycles = [trial.cycles for trial in group if trial.cycles is not None]
    counted = Counter(trial.outcome for trial in group if trial.outcome is not None)
    outcomes = Counter({outcome.value: amount for outcome, amount in counted.items()})
    return ValueFacts(
        value=value,
        trials=len(group),
        failed=sum(1 for trial in group if trial.outcome not in HARMLESS),
        best=min(cycles, default=None),
        middle=median(cycles) if cycles else None,
        outcomes=dict(outcomes.most_common()),
    )


def importances(space: Space, trials: Sequence[AnalysedTrial]) -> dict[str, float]:
    """Optuna's PED-ANOVA over the measured trials of one generator. Each knob is told among the
    trials that set it and the knobs that they all set, so that a value which only some configs
    have is never compared with having none. Knobs of too few trials, or of trials that all take
    the same cycles, are left out."""
    measured = [trial for trial in trials if trial.cycles is not None][-MOST_RANKED:]
    names = [knob.name for knob in space.knobs if knob.name != GENERATOR]
    setters: dict[frozenset[int], list[str]] = {}
    for name in names:
        numbers = frozenset(one.number for one in measured if name in one.config)
        setters.setdefault(numbers, []).append(name)
    found: dict[str, float] = {}
    for numbers, knobs in setters.items():
        own = [trial for trial in measured if trial.number in numbers]
        if len(own) < LEAST_TRIALS or len({trial.cycles for trial in own}) < 2:
            continue
        common = [name for name in names if all(name in trial.config for trial in own)]
        ranked = _ped_anova(space, common, own)
        found |= {name: ranked[name] for name in knobs}
    return found


def _ped_anova(
    space: Space, names: Sequence[str], trials: Sequence[AnalysedTrial]
) -> dict[str, float]:
    import optuna
    from optuna.distributions import BaseDistribution, CategoricalDistribution
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

    distributions: dict[str, BaseDistribution] = {
        knob.name: CategoricalDistribution(knob.choices)
        for knob in space.knobs
        if knob.name in names
    }
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = optuna.create_study()
        study.add_trials(
            [
                optuna.trial.create_trial(
                    params={name: trial.config[name] for name in names},
                    distributions=distributions,
                    value=float(trial.cycles or 0),
                )
                for trial in trials
            ]
        )
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    finally:
        optuna.logging.set_verbosity(before)
    return {name: float(value) for name, value in found.items()}


Size = Callable[[AnalysedTrial], int]


def code_bytes(trial: AnalysedTrial) -> int:
    """Of its code."""
    return trial.code_bytes or 0


def vtcm_bytes(trial: AnalysedTrial) -> int:
    """Of VTCM that it touches."""
    return trial.vtcm_bytes or 0


def ddr_bytes(trial: AnalysedTrial) -> int:
    """That it moves from and to DDR."""
    return trial.ddr_bytes or 0


def pareto(trials: Sequence[AnalysedTrial], size_of: Size = code_bytes) -> list[AnalysedTrial]:
    """The trials that no other one beats in cycles and in size both, fastest first."""
    return front_of(
        trials, lambda trial: None if trial.cycles is None else (trial.cycles, size_of(trial))
    )


def on_front(trials: Sequence[AnalysedTrial], goals: Sequence[str]) -> set[int]:
    """The numbers of the trials on the Pareto front of a job; none for a single objective."""
    if len(goals) == 1:
        return set()
    return {trial.number for trial in front_of(trials, lambda trial: figures_of(trial, goals))}


def lanes(trials: Sequence[AnalysedTrial], now: float) -> list[dict[str, Any]]:
    """The last trials as bars on lanes, as few as were in flight at once. Those still running
    end ``now``."""
    latest = sorted(trials, key=lambda trial: trial.started_at)[-MOST_BARS:]
    free: list[float] = []
    bars = []
    zero = latest[0].started_at if latest else 0.0
    for trial in latest:
        end = trial.finished_at or now
        lane = next((i for i, until in enumerate(free) if until <= trial.started_at + 1e-3), None)
        if lane is None:
            lane = len(free)
            free.append(end)
        free[lane] = end
        bars.append(
            {
                "trial": trial.number,
                "lane": lane,
                "from": round(trial.started_at - zero, 3),
                "seconds": round(max(0.0, end - trial.started_at), 3),
                "outcome": trial.outcome.value if trial.outcome else "running",
            }
        )
    return bars


def plots(
    space: Space,
    trials: Sequence[AnalysedTrial],
    facts: Sequence[GeneratorFacts],
    goals: Sequence[str] = DEFAULT_OBJECTIVES,
) -> Any:
    """The charts of the page: few enough lines and dots for a browser. Lines are of one generator
    each, the one with the best first."""
    measured = [trial for trial in trials if trial.cycles is not None]
    fast = sorted(measured, key=lambda trial: trial.cycles or 0)
    chosen = on_front(fast, goals)
    choices = {knob.name: [str(c) for c in knob.choices] for knob in space.knobs}
    ranked = {one.name: [knob.name for knob in one.knobs] for one in facts}
    several = [GENERATOR] if len(facts) > 1 else []
    shown = {name for trial in measured for name in trial.config}
    names = (name for own in ranked.values() for name in own if name in shown)
    every = list(dict.fromkeys([*several, *names]))

    def knobs(names: Sequence[str]) -> list[dict[str, Any]]:
        return [{"name": name, "choices": choices[name]} for name in names]

    groups = _by_generator(fast)
    return {
        "knobs": knobs(every),
        "dots": [_point(trial, every) for trial in _thinned(fast, MOST_DOTS)],
        "lines": [
            {
                "generator": name,
                "knobs": knobs(ranked[name]),
                "points": [_point(one, ranked[name]) for one in _thinned(groups[name], MOST_LINES)],
            }
            for name in sorted(groups, key=lambda name: groups[name][0].cycles or 0)
        ],
        "code": _sizes(fast, code_bytes, chosen),
        # Empty where it makes no difference: every front would be the fastest trial.
        "vtcm": _sizes(fast, vtcm_bytes, chosen) if any(map(vtcm_bytes, measured)) else None,
        "ddr": _sizes(fast, ddr_bytes, chosen) if any(map(ddr_bytes, measured)) else None,
    }


def _sizes(fast: Sequence[AnalysedTrial], size_of: Size, chosen: Set[int]) -> dict[str, Any]:
    """Cycles against a size: few enough dots, the whole front, and all that are ``chosen``."""

    def dots(trials: Sequence[AnalysedTrial]) -> list[list[int | None]]:
        return [[size_of(trial), trial.cycles, trial.number] for trial in trials]

    return {
        "dots": dots(_thinned(fast, MOST_DOTS)),
        "front": dots(pareto(fast, size_of)),
        "goals": dots([trial for trial in fast if trial.number in chosen]),
    }


def _point(trial: AnalysedTrial, knobs: Sequence[str]) -> list[Any]:
    values = (trial.config.get(name) for name in knobs)
    return [trial.cycles, trial.number, *(None if one is None else str(one) for one in values)]


def _thinned(fast: Sequence[AnalysedTrial], most: int) -> list[AnalysedTrial]:
    """At most ``most``: the fastest quarter of that, and evenly of the rest."""
    if len(fast) <= most:
        return list(fast)
    first = most // 4
    rest = fast[first:]
    left = most - first
    return [*fast[:first], *(rest[i * len(rest) // left] for i in range(left))]
