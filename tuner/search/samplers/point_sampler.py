"""What samplers that choose among listed configs share: the study's history as rows, and back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.search.encoding import distributions, encode
from tuner.search.samplers.brute_force import SpaceExhaustedError
from tuner.search.samplers.points import Points
from tuner.space import Config, KnobValue, Space


@dataclass
class History:
    """Trials so far, as rows of :class:`Points`; ``done[i]`` took ``cycles[i]``."""

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
        self._rows: dict[int, int | None] = {}

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
        history = History()
        for trial in trials:
            row = None if trial.number == asking else self._row(trial)
            if row is None:
                continue
            if trial.state is TrialState.COMPLETE and trial.value is not None:
                history.done.append(row)
                history.cycles.append(trial.value)
                history.numbers.append(trial.number)
            elif trial.state is TrialState.PRUNED:
                history.failed.append(row)
            elif trial.state is TrialState.RUNNING:
                history.pending.append(row)
        return history

    def _row(self, trial: FrozenTrial) -> int | None:
        if trial.number not in self._rows:
            config = self._config(trial.params)
            row = None if config is None else self._points.row_of(config)
            if not trial.state.is_finished():
                return row  # it may not have all of its parameters yet
            self._rows[trial.number] = row
        return self._rows[trial.number]

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
