"""The configs a model-based sampler chooses among, as rows of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
from numpy.typing import NDArray

from tuner.space import Config, Knob, KnobValue, Space

Rows = NDArray[np.int16]
"""One config a row, one knob a column: the index of its choice, or ``INACTIVE``."""
INACTIVE = -1
_ENUMERATED = 20_000
"""Spaces up to this size are listed at once (0.4 s); of larger ones only a part is known."""
_FIRST_SAMPLES = 500
_MORE_SAMPLES, _MOST_SAMPLES = 10, 4_000
"""Random configs more at each trial, and at most: what is drawn from them hardly changes then."""


class Points:
    """Valid configs of a space: all of them if they are few, else a growing part.

    Rows keep their place once they are there, so that a row number names a config for good.
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
        """The row of ``config``, which is added if it is not there."""
        return self._add_one(config)

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

    def differences(self, row: int) -> NDArray[np.intp]:
        """In how many knobs each config differs from that of ``row``."""
        return np.asarray((self.rows != self.rows[row]).sum(axis=1))

    def _neighbours(self, config: Config) -> Iterable[Config]:
        for knob in self._space.knobs:
            for choice in knob.choices if knob.name in config else ():
                if choice != config[knob.name]:
                    near = self._with(config, knob, choice)
                    if near is not None:
                        yield near

    def _with(self, config: Config, changed: Knob, choice: KnobValue) -> Config | None:
        """``config`` with one knob set; knobs that thereby wake are drawn at random."""
        values: dict[str, KnobValue] = {}
        for knob in self._space.walk(values):
            if knob == changed:
                values[knob.name] = choice
            elif knob.name in config:
                values[knob.name] = config[knob.name]
            else:
                values[knob.name] = self._random.choice(knob.choices)
        return Config(values) if self._space.violation(values) is None else None

    def _add_samples(self, count: int) -> None:
        self._add(self._space.sample(self._random) for _ in range(count))
        self._sampled += count

    def _add(self, configs: Iterable[Config]) -> None:
        for config in configs:
            self._add_one(config)

    def _add_one(self, config: Config) -> int:
        """The row of ``config``, new or not."""
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
