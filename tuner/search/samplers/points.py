"""Search among listed configs: the configs as rows of numbers, and a sampler's history as rows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import Study
from optuna.trial import FrozenTrial, TrialState

from tuner.search.encoding import FIXED, distributions, encode, with_choice
from tuner.search.samplers.sampler import SpaceExhaustedError
from tuner.space import Config, KnobValue, Space

Rows = NDArray[np.int16]
"""One config a row, one knob a column: the index of its choice, or ``INACTIVE``."""
INACTIVE = -1
_ENUMERATED = 20_000
"""Spaces up to this size are listed at once (0.4 s); of larger ones only a part is known."""
_FIRST_SAMPLES = 500
_MORE_SAMPLES, _MOST_SAMPLES = 10, 4_000
"""Random configs added at each trial, and in all: beyond that, more hardly change a proposal."""


class Points:
    """Valid configs of a space: all of them if they are few, else a growing part.

    Rows keep their place once added, so that a row number names a config for good.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._random = Random(seed)  # noqa: S311 - a search, not a secret
        self._places = {knob.name: i for i, knob in enumerate(space.knobs)}
        self._choices = [{c: i for i, c in enumerate(knob.choices)} for knob in space.knobs]
        self._found: dict[bytes, int] = {}
        self._configs: list[Config] = []
        self._rows: Rows = np.empty((256, len(space.knobs)), np.int16)
        self._expanded: set[int] = set()
        self._sampled = 0
        self.complete = space.count(_ENUMERATED + 1) <= _ENUMERATED
        if self.complete:
            self._add(space)
        else:
            self._add_samples(_FIRST_SAMPLES)

    @property
    def rows(self) -> Rows:
        """All configs known so far."""
        return self._rows[: len(self._configs)]

    def config(self, row: int) -> Config:
        """The config of a row."""
        return self._configs[row]

    def row_of(self, config: Config) -> int:
        """The row of ``config``, which is added if it is new."""
        values = np.full(len(self._places), INACTIVE, np.int16)
        for name, value in config.items():
            place = self._places[name]
            values[place] = self._choices[place][value]
        key = values.tobytes()
        row = self._found.get(key)
        if row is None:
            row = self._found[key] = len(self._configs)
            if row == len(self._rows):
                self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._rows[row] = values
            self._configs.append(config)
        return row

    def grow(self, around: Iterable[int]) -> None:
        """Of a space too large to list: more random configs, and all neighbours of ``around``."""
        if self.complete:
            return
        if self._sampled < _MOST_SAMPLES:
            self._add_samples(_MORE_SAMPLES)
        for row in around:
            if row not in self._expanded:
                self._expanded.add(row)
                self._add(self._neighbours(self._configs[row]))

    def _neighbours(self, config: Config) -> Iterable[Config]:
        for knob in self._space.knobs:
            for choice in knob.choices if knob.name in config else ():
                if choice != config[knob.name]:
                    near = with_choice(self._space, config, knob, choice, self._random)
                    if near is not None:
                        yield near

    def _add_samples(self, count: int) -> None:
        self._add(self._space.sample(self._random) for _ in range(count))
        self._sampled += count

    def _add(self, configs: Iterable[Config]) -> None:
        for config in configs:
            self.row_of(config)


@dataclass
class History:
    """Trials so far, as rows of :class:`Points`, in the order in which they were seen to have
    ended; ``done[i]`` took ``cycles[i]``. Not to be changed."""

    done: list[int] = field(default_factory=list)
    cycles: list[float] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    vain: int = 0
    """Results of the sampler's proposals, failures too, since the latest gain by whatever trial."""
    most_vain: int = 0
    """The most that there have been of these between two gains."""

    @property
    def seen(self) -> list[int]:
        """All rows proposed before, whatever their outcome."""
        return [*self.done, *self.failed, *self.pending]


class ConfigSampler(BaseSampler):
    """An Optuna sampler that proposes whole configs of one space: inherit it and override
    :meth:`next_config`."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space = space
        self._distributions = distributions(space)
        self._fallback = RandomSampler(seed=seed)

    @abstractmethod
    def next_config(self, study: Study, trial: FrozenTrial) -> Config | None:
        """The config to propose as ``trial``; ``None`` leaves it to chance. Raises
        ``SpaceExhaustedError`` once every config has been proposed."""

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._distributions

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if FIXED in trial.system_attrs:
            return {}
        config = self.next_config(study, trial)
        return {} if config is None else encode(self._space, config)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        return self._fallback.sample_independent(study, trial, param_name, param_distribution)


class PointSampler(ConfigSampler):
    """Proposes valid configs of one space, none of them twice.

    A trial of the study is a config if its parameters are those of ``tuner.search.encoding``.
    Completed trials count by their value, pruned ones as failures, running ones as pending;
    failed ones, and configs outside the space, are ignored. Once every config has been proposed,
    ``SpaceExhaustedError`` is raised. Not for several threads at once.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self._points = Points(space, seed)
        self._finished = History()
        self._looked_at = 0
        """Trials of the study at the last look."""
        self._unfinished: list[int] = []
        """Those of them that had not ended."""

    @abstractmethod
    def choose(self, history: History) -> int | None:
        """The row to propose, not one of ``history.seen``; ``None`` if none is left."""

    def next_config(self, study: Study, trial: FrozenTrial) -> Config | None:
        row = self.choose(self._history(study.get_trials(deepcopy=False), trial.number))
        if row is not None:
            return self._points.config(row)
        if self._points.complete:
            raise SpaceExhaustedError
        return None

    def _history(self, trials: Sequence[FrozenTrial], asking: int) -> History:
        """All trials but the one that asks; finished ones are looked at once."""
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
        told = self._finished
        if trial.state is TrialState.COMPLETE and trial.value is not None:
            gains = trial.value < min(told.cycles, default=math.inf)
            told.done.append(row)
            told.cycles.append(trial.value)
        elif trial.state is TrialState.PRUNED:
            gains = False
            told.failed.append(row)
        else:
            return
        told.vain = 0 if gains else told.vain + (FIXED not in trial.system_attrs)
        told.most_vain = max(told.most_vain, told.vain)

    def _row(self, trial: FrozenTrial) -> int | None:
        config = self._config(trial.params)
        return None if config is None else self._points.row_of(config)

    def _config(self, params: Mapping[str, Any]) -> Config | None:
        """The config that these parameters are, if it is valid."""
        values: dict[str, KnobValue] = {}
        for knob in self._space.walk(values):
            chosen = params.get(knob.name, 0 if len(knob.choices) == 1 else None)
            if chosen is None:
                return None
            values[knob.name] = knob.choices[chosen] if isinstance(chosen, int) else chosen
            if values[knob.name] not in knob.choices:
                return None
        return Config(values) if self._space.violation(values) is None else None
