"""Search with a learned model of the cycles, for discrete, conditional, constrained spaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from optuna.samplers import BaseSampler

from tuner.search.samplers.gaussian_process import (
    Features,
    Fitter,
    Floats,
    GaussianProcess,
    Indices,
    Mask,
    Metric,
    Settings,
)
from tuner.search.samplers.points import History, Points, PointSampler, Rows
from tuner.search.samplers.sampler import Sampler, Source
from tuner.space import Space

CHOSEN_ON = frozenset({"add_u8", "depthwise_conv2d_u8"})
"""The kernels whose tables, beside published tables of GPU kernels, the settings below were chosen
on: other kernels judge how good the search is."""
_SPREAD_TRIALS = 4
"""Trials before the model is asked. This one setting was chosen on all tables: of 3, 4, 5, 6 and 8,
it is best after 20 trials; with one table left out the others choose it in 15 cases of 16."""
_LEAST_SPREAD = 2
"""Of these, trials that are spread out whatever configs a search begins with: those that
searches of a set hand on lie close together, and alone had the model look nowhere else."""
_MOST_GIVEN = 20
"""Results after which that is over: a search that is resumed has had it."""
_SPREAD_CHOICES = 30
_POOL = 800
"""Configs the model rates for one proposal: its time grows with them."""
_NEAR_SHARE = 3
"""One in three of the pool lies near the best configs; the rest is anywhere."""
_BEST = 5
"""The best configs, whose neighbourhoods are in the pool."""
_FIT_STEPS, _LEAST_FIT_STEPS = 8, 2
_FIT_WORK = 400
"""Steps of the weights at each trial, times results known: a step costs the cube of the results,
and with many results the weights hardly move any more."""
_MOST_FITTED = 100
"""Results that weights are fitted to."""
_MOST_KNOWN = 120
"""Results the model learns from: half of them the best, half the latest. The model of validity
learns from as many."""
_REFIT = 4
"""With many results known, one more moves the weights little: trials between two fits."""
_CHUNK = 150
"""Configs whose validity is predicted at once, the most promising first."""
_VAIN = 3
"""Proposals in a row without a gain, besides those of candidates in flight, after which a source is
dropped: what it has to say has been tried."""
_WORST = 3.0
"""Results further above the median than this many times the best's distance below it count as
equally bad."""
_LEAST_VALIDITY = 1e-4
_CYCLES_WEIGHT, _VALIDITY_WEIGHT = 0.0, -2.5
"""Logarithms. Most knobs matter for the cycles, few for whether the schedule works."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class _SourceRows:
    """A :class:`Source` as rows of ``Points``, the best first; ``logs`` are those of its cycles,
    relative to its textbook's."""

    textbook: int
    rows: Indices
    logs: Floats

    @classmethod
    def of(cls, source: Source, points: Points) -> _SourceRows:
        """``points`` gets those of its configs that it has not."""
        rows = np.array([points.row_of(config) for config, _ in source.results], np.intp)
        logs = np.log([ratio for _, ratio in source.results])
        return cls(points.row_of(source.textbook), rows, np.asarray(logs))


class SurrogateSampler(PointSampler):
    """Fits a Gaussian process to the logarithm of cycles and proposes the most promising config.

    That is the one with the highest expected improvement on the best, times its probability of
    being valid (by the outcomes of configs like it: failures have no cycles to learn from). The
    first few trials are spread out instead. The pool of rated configs holds the neighbourhood of
    the best and configs from anywhere. Candidates in flight are not proposed again, and count as
    measured at the cycles the model expects of them.

    With a ``source`` the model begins with its results beside the own ones, both relative to the
    textbook config's, as soon as that is measured here. It is dropped for good after some proposals
    in a row without a gain.
    """

    def __init__(self, space: Space, seed: int, source: Source | None = None) -> None:
        super().__init__(space, seed)
        self._source = None if source is None else _SourceRows.of(source, self._points)
        self._rng = np.random.default_rng(seed)
        self._spread = 0
        self._metric = Metric(space)
        self._fitter = Fitter(len(space.knobs), _CYCLES_WEIGHT)
        self._source_fitter = Fitter(len(space.knobs), _CYCLES_WEIGHT)
        self._validity_fitter = Fitter(len(space.knobs), _VALIDITY_WEIGHT)
        self._kept_features = self._metric.features(self._points.rows)
        self._known_features = len(self._points.rows)

    @property
    def _features(self) -> Features:
        """Features of all configs known so far, by row."""
        return self._kept_features[: self._known_features]

    def choose(self, history: History) -> int | None:
        order = np.argsort(history.cycles, kind="stable")
        best = [history.done[i] for i in order[:_BEST]]
        source = self._source_for(history)
        if source is not None:
            best += source.rows[:_BEST].tolist()
        self._points.grow(best)
        self._extend_features()
        free = np.ones(len(self._points.rows), bool)
        free[history.seen] = False
        if not free.any():
            return None
        results = len(history.done) + len(history.failed)
        begins = self._spread < _LEAST_SPREAD and results < _MOST_GIVEN
        if begins or len(history.done) < 2 or results < _SPREAD_TRIALS:
            self._spread += 1
            if source is None:
                return self._farthest(free, history.seen)
        pool = self._pool(free, best)
        known = _worth_knowing(order)
        logs = np.log(np.array(history.cycles)[known])
        rows = np.array(history.done)[known]
        promise = self._promise(pool, rows, logs, history, source)
        if history.failed:
            return self._best_valid(pool, promise, rows, history)
        return int(pool[int(np.argmax(promise))])

    def _best_valid(self, pool: Indices, promise: Floats, done: Indices, history: History) -> int:
        """The config with the highest promise times probability of being valid.

        Probabilities are at most 1: once the best so far beats the promise of all that are left,
        their validity need not be predicted.
        """
        order = np.argsort(-promise, kind="stable")
        validity = self._validity_model(done, history.failed, len(history.seen))
        found, highest = -1, -math.inf
        for first in range(0, len(order), _CHUNK):
            chunk = order[first : first + _CHUNK]
            if promise[chunk[0]] <= highest:
                break
            mean, _ = validity.predict(self._features[pool[chunk]])
            valid = np.clip(1.0 + mean, _LEAST_VALIDITY, 1.0) ** 2
            total = promise[chunk] + np.log(valid)
            best = int(np.argmax(total))
            if total[best] > highest:
                found, highest = int(pool[chunk[best]]), float(total[best])
        return found

    def _source_for(self, history: History) -> _SourceRows | None:
        """The source, while it is learned from."""
        if history.most_vain >= _VAIN + len(history.pending):
            self._source = None
        if self._source is None or self._source.textbook not in history.done:
            return None
        return self._source

    def _extend_features(self) -> None:
        rows = self._points.rows
        if len(rows) == self._known_features:
            return
        more = self._metric.features(rows[self._known_features :])
        if len(rows) > len(self._kept_features):  # with room to spare, as copying all is slow
            room = np.empty((2 * len(rows), more.shape[1]), more.dtype)
            room[: self._known_features] = self._features
            self._kept_features = room
        self._kept_features[self._known_features : len(rows)] = more
        self._known_features = len(rows)

    def _farthest(self, free: NDArray[np.bool_], seen: Sequence[int]) -> int:
        """Of some random configs, the one that is least like any proposed before."""
        rows = np.flatnonzero(free)
        some = self._rng.choice(rows, min(len(rows), _SPREAD_CHOICES), replace=False)
        if not seen:
            return int(some[0])
        form = self._metric.form(np.ones(len(self._space.knobs)))
        away = (self._features[some] @ form @ self._features[list(seen)].T).min(axis=1)
        return int(some[int(np.argmax(away))])

    def _pool(self, free: NDArray[np.bool_], best: Sequence[int]) -> Indices:
        rows = np.flatnonzero(free)
        if len(rows) <= _POOL:
            return rows
        # Features are one-hot: their product counts the knobs in which two configs agree.
        alike = (self._features @ self._features[list(best)].T).max(axis=1)[rows]
        order = np.argpartition(-alike, _POOL // _NEAR_SHARE)
        near, others = np.split(order, [_POOL // _NEAR_SHARE])
        rest = self._rng.choice(others, _POOL - len(near), replace=False)
        return np.asarray(rows[np.concatenate([near, rest])])

    def _promise(
        self,
        pool: Indices,
        rows: Indices,
        logs: Floats,
        history: History,
        source: _SourceRows | None,
    ) -> Floats:
        """Logarithm of the expected improvement of each config of the pool."""
        own, fitter = len(rows), self._fitter
        if source is not None:
            fitter = self._source_fitter
            rows = np.concatenate([rows, source.rows])
            textbook = math.log(history.cycles[history.done.index(source.textbook)])
            logs = np.concatenate([logs - textbook, source.logs])
        targets = _standardized(logs)
        taken = self._points.rows[rows]
        others = np.arange(len(rows) + len(history.pending)) >= own
        others[len(rows) :] = False
        settings = self._fit(fitter, taken, targets, len(history.done), others[: len(rows)])
        both = np.concatenate([taken, self._points.rows[history.pending]])
        model = GaussianProcess(self._metric, both, targets, settings, others)
        mean, deviation = model.predict(self._features[pool])
        return _log_expected_improvement(mean, deviation, float(targets[:own].min()))

    def _validity_model(
        self, done: Indices, failed: Sequence[int], results: int
    ) -> GaussianProcess:
        """The model of how far from valid a config is: 0 is valid, and expected of configs unlike
        any known.

        A process with weights of its own: the knobs that break a schedule are not those that make
        it slow.
        """
        latest = np.array(failed[-_MOST_KNOWN // 2 :])
        valid = (
            done
            if len(done) <= _MOST_KNOWN // 2
            else self._rng.choice(done, _MOST_KNOWN // 2, False)
        )
        rows = self._points.rows[np.concatenate([valid, latest])]
        targets = np.concatenate([np.zeros(len(valid)), np.full(len(latest), -1.0)])
        settings = self._fit(
            self._validity_fitter, rows, targets, results, np.zeros(len(rows), bool)
        )
        return GaussianProcess(self._metric, rows, targets, settings)

    def _fit(
        self, fitter: Fitter, rows: Rows, targets: Floats, results: int, others: Mask
    ) -> Settings:
        """The settings that ``fitter`` fits to these results, or to some of them if they are many.

        ``results`` counts all results so far: with many, most calls fit nothing.
        """
        if results > _MOST_FITTED and results % _REFIT:
            return fitter.settings
        if len(rows) > _MOST_FITTED:
            some = self._rng.choice(len(rows), _MOST_FITTED, replace=False)
            rows, targets, others = rows[some], targets[some], others[some]
        steps = max(_LEAST_FIT_STEPS, min(_FIT_STEPS, _FIT_WORK // len(rows)))
        return fitter.fit(self._metric.pairs(rows, others), targets, steps)


def _worth_knowing(order: Indices) -> Indices:
    """Which results to learn from, given their order from best to worst."""
    if len(order) <= _MOST_KNOWN:
        return np.arange(len(order))
    half = _MOST_KNOWN // 2
    return np.union1d(order[:half], np.arange(len(order) - half, len(order)))


def _standardized(logs: Floats) -> Floats:
    """Targets of the model: half the results themselves, half their ranks.

    The cycles tell how much better a config is, but alone they would have the model explain little
    else than a few very slow ones; ranks are always spread evenly (normal scores).
    """
    middle, low = float(np.median(logs)), float(logs.min())
    held = np.minimum(logs, middle + _WORST * (middle - low) + 0.1)
    ranks = np.empty(len(logs), np.intp)
    ranks[np.argsort(logs, kind="stable")] = np.arange(len(logs))
    scores = np.array([_NORMAL.inv_cdf((n + 0.5) / len(logs)) for n in range(len(logs))])
    return np.asarray((_scaled(held) + _scaled(scores[ranks])) / 2)


def _scaled(values: Floats) -> Floats:
    return np.asarray((values - values.mean()) / (values.std() + 1e-9))


_erf = np.vectorize(math.erf, otypes=[float])


def _log_expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """The logarithm of how far a normally distributed value is expected below ``best`` (Mockus
    1975)."""
    z = np.clip((best - mean) / deviation, -30.0, 30.0)
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    below = 0.5 * (1.0 + _erf(z / math.sqrt(2.0)))
    return np.asarray(np.log(np.maximum(deviation * (density + z * below), 1e-300)))


class Surrogate(Sampler):
    """Expected improvement by a Gaussian process, times the probability of being valid."""

    def make(self, space: Space, seed: int) -> BaseSampler:
        return SurrogateSampler(space, seed)

    def make_after(self, source: Source, space: Space, seed: int) -> BaseSampler:
        return SurrogateSampler(space, seed, source)
