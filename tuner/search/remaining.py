"""An estimate of the remaining gain: how far further search would likely lower the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuner.records.trial import JobSpec, RemainingGain, Trial
from tuner.search.samplers.gaussian_process import Fitter, Floats, GaussianProcess, Metric
from tuner.search.samplers.points import Points
from tuner.space import Config, Space

LEAST_RESULTS = 10
"""Fewer say too little about a space."""
_MOST_KNOWN = 120
_LOOKED_AT, _SHORT_LIST = 1500, 300
"""Unmeasured configs that are looked at, and how many of them, the most promising, are drawn
jointly: together they decide the minimum."""
_DRAWS = 128
_ESTIMATE_EVERY = 5
"""Trials between two estimates, which take about 20 ms."""
_FIT_STEPS = 12
_BOUND = 0.95
_WIDER = 1.3
"""Factor on the model's deviations: it is overconfident (docs/search.md)."""


class GainEstimator:
    """Estimates from the trials of one search, whichever sampler proposed them.

    The model is the one of the surrogate sampler; it draws the cycles of unmeasured configs,
    jointly, and takes how far the least of each draw lies below the best so far.
    ``roofline_cycles`` are those of :mod:`tuner.measure.roofline`, for the rule that ``cycles``
    follow: no schedule takes fewer, whatever the model draws.
    """

    def __init__(self, space: Space, seed: int, roofline_cycles: float = 0.0) -> None:
        self._space, self._seed, self._roofline_cycles = space, seed, roofline_cycles
        self._metric = Metric(space)
        self._fitter = Fitter(len(space.knobs), 0.0)
        self._rng = np.random.default_rng(seed)

    @cached_property
    def _points(self) -> Points:
        return Points(self._space, self._seed)

    def estimate(
        self, configs: Sequence[Config], cycles: Sequence[float], failed: Iterable[Config]
    ) -> RemainingGain | None:
        """The estimate after these results and failures; ``None`` while they are too few."""
        if len(configs) < LEAST_RESULTS:
            return None
        rows = np.array([self._points.row_of(config) for config in configs])
        lost = [self._points.row_of(config) for config in failed]
        order = np.argsort(cycles, kind="stable")
        self._points.grow([int(rows[i]) for i in order[:5]])
        free = np.ones(len(self._points.rows), bool)
        free[rows] = False
        free[lost] = False
        left = np.flatnonzero(free)
        if not len(left):
            return RemainingGain(0.0, 0.0)
        some = left if len(left) <= _LOOKED_AT else self._rng.choice(left, _LOOKED_AT, False)
        known = order if len(order) <= _MOST_KNOWN else self._known(order)
        logs = np.log(np.asarray(cycles, float))
        best = float(logs.min())
        gains = self._drawn(rows[known], logs[known], best, some)
        if 0.0 < self._roofline_cycles <= np.exp(best):
            gains = np.minimum(gains, best - np.log(self._roofline_cycles))
        # The most promising configs will fail as often as those so far.
        valid = len(rows) / (len(rows) + len(lost))
        shares = (1.0 - np.exp(-gains)) * valid
        return RemainingGain(float(shares.mean()), float(np.quantile(shares, _BOUND)))

    def _known(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """The best results, and some of the others."""
        half = _MOST_KNOWN // 2
        others = self._rng.choice(order[half:], _MOST_KNOWN - half, False)
        return np.concatenate([order[:half], others])

    def _drawn(
        self, rows: NDArray[np.intp], logs: Floats, best: float, some: NDArray[np.intp]
    ) -> Floats:
        """How far below ``best`` the least of ``some`` lies, in logarithms of cycles, by draw."""
        middle = float(np.median(logs))
        held = np.minimum(logs, middle + 3.0 * (middle - best) + 0.1)
        spread = float(held.std()) + 1e-9
        targets = (held - held.mean()) / spread
        taken = self._points.rows[rows]
        settings = self._fitter.fit(self._metric.pairs(taken), targets, _FIT_STEPS)
        model = GaussianProcess(self._metric, taken, targets, settings)
        features = self._metric.features(self._points.rows[some])
        mean, deviation = model.predict(features)
        short = np.argsort(mean - 2.0 * deviation)[:_SHORT_LIST]
        draws = model.draw(features[short], _DRAWS, self._rng, _WIDER)
        least = draws.min(axis=1) * spread + held.mean()
        return np.asarray(np.maximum(0.0, best - least))


def remaining_of(
    estimator: GainEstimator, trials: Sequence[Trial], spec: JobSpec
) -> RemainingGain | None:
    """The estimate after these trials of a job: of what its best is chosen by."""
    measured = [(t.config, spec.ranked(t)[0]) for t in trials if t.measurement is not None]
    return estimator.estimate(
        [config for config, _ in measured],
        [cycles for _, cycles in measured],
        (t.config for t in trials if t.measurement is None),
    )


class GainWatch:
    """The estimate for a search under way, renewed every few trials."""

    def __init__(self, space: Space, spec: JobSpec, roofline_cycles: float) -> None:
        self._asked = space, spec.seed, roofline_cycles
        self._spec = spec
        self._estimator = GainEstimator(*self._asked)
        self._looked_at = 0
        self.remaining: RemainingGain | None = None

    def look(self, trials: Mapping[int, Trial]) -> None:
        """``trials``, by number, are all that have finished so far."""
        if len(trials) - self._looked_at >= _ESTIMATE_EVERY:
            self._looked_at = len(trials)
            self.remaining = remaining_of(self._estimator, self._in_order(trials), self._spec)

    @staticmethod
    def _in_order(trials: Mapping[int, Trial]) -> list[Trial]:
        return [trials[n] for n in sorted(trials)]

    def conclude(self, trials: Mapping[int, Trial]) -> None:
        """The last estimate: from these trials alone, whatever earlier estimates drew."""
        fresh = GainEstimator(*self._asked)
        self.remaining = remaining_of(fresh, self._in_order(trials), self._spec)
