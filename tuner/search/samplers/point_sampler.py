"""What samplers that choose among listed configs share: the study's history as rows, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.search.encoding import distributions, encode
from tuner.search.samplers.points import Points
from tuner.search.samplers.sampler import SpaceExhaustedError
from tuner.space import Config, KnobValue, Space


@dataclass
class History:
    """Trials so far, as rows of :class:`Points`; ``done[i]`` took ``cycles[i]``.

    In the order in which they were seen to have ended. Not to be changed.
    """

    done: list[int] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The trial numbers of ``done``."""
    failed: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)

    @property
    def seen(self) -> list[int]:
        """All rows proposed before, whatever became of them."""
        return [*self.done, *self.failed, *self.pending]


class PointSampler(BaseSampler):
    """An Optuna sampler that proposes valid configs of one space, none of them twice.

    A trial of the study is a config if its parameters are those of ``tuner.search.encoding``.
    Completed trials count by their value, pruned ones as failures, running ones as pending;
    failed ones (and what does not lie in the space) are not looked at. When every config was
    proposed, ``SpaceExhaustedError`` is raised. Not for several threads at once.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._points = Points(space, seed)
        self._distributions = distributions(space)
        self._fallback = RandomSampler(seed=seed)
        self._finished = History()
        self._looked_at = 0
        """How many trials of the study were there at the last look."""
        self._unfinished: list[int] = []
        """Those of them that had not ended."""

    @abstractmethod
    def choose(self, history: History) -> int | None:
        """The row to propose, not one of ``history.seen``; ``None`` if there is none left."""

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if "fixed_params" in trial.system_attrs:
            return {}
        row = self.choose(self._history(study.get_trials(deepcopy=False), trial.number))
        if row is not None:
            return encode(self._space, self._points.config(row))
        if self._points.complete:
            raise SpaceExhaustedError
        return {}

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)

    def _history(self, trials: Sequence[FrozenTrial], asking: int) -> History:
        """What became of all trials but the one that asks; finished ones are looked at once."""
        unfinished = [*self._unfinished, *range(self._looked_at, len(trials))]
        self._looked_at = len(trials)
        self._unfinished = []
        pending = []
        for number in unfinished:
            trial = trials[number]
            if trial.state.is_finished():
                self._note(trial)
                continue
            self._unfinished.append(number)
            # It may not have all of its parameters yet.
            row = None if number == asking else self._row(trial)
            if row is not None and trial.state is TrialState.RUNNING:
                pending.append(row)
        return replace(self._finished, pending=pending)

    def _note(self, trial: FrozenTrial) -> None:
        row = self._row(trial)
        if row is None:
            return
        if trial.state is TrialState.COMPLETE and trial.value is not None:
            self._finished.done.append(row)
            self._finished.cycles.append(trial.value)
            self._finished.numbers.append(trial.number)
        elif trial.state is TrialState.PRUNED:
            self._finished.failed.append(row)

    def _row(self, trial: FrozenTrial) -> int | None:
        config = self._config(trial.params)
        return None if config is None else self._points.row_of(config)

    def _config(self, params: Mapping[str, Any]) -> Config | None:
        """The config of these parameters, if they are a valid one."""
        values: dict[str, KnobValue] = {}
        for knob in self._space.walk(values):
            chosen = params.get(knob.name, 0 if len(knob.choices) == 1 else None)
            if chosen is None:
                return None
            values[knob.name] = knob.choices[chosen] if isinstance(chosen, int) else chosen
            if values[knob.name] not in knob.choices:
                return None
        return Config(values) if self._space.violation(values) is None else None
