"""The model of the default search: its slopes, and what it makes of main effects."""

from __future__ import annotations

import numpy as np

from tuner.search.samplers.gaussian_process import (
    Fitter,
    GaussianProcess,
    Metric,
)
from tuner.search.samplers.points import INACTIVE
from tuner.space import Knob, Space

CHOICES = (3, 4, 2, 5)
SPACE = Space(
    "any",
    (
        *(Knob(f"k{i}", tuple(range(1, n + 1)), "") for i, n in enumerate(CHOICES)),
        Knob("form", ("a", "b", "c"), ""),
    ),
)
METRIC = Metric(SPACE)


def some_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, len(knob.choices), count) for knob in SPACE.knobs]
    rows = np.stack(columns, axis=1).astype(np.int16)
    rows[: count // 4, 2] = INACTIVE
    return rows


def test_what_each_choice_is_worth_is_learned_from_few_results():
    """Each knob adds its own: 14 results out of 360 tell the order of the rest."""
    rng = np.random.default_rng(3)
    worth = [rng.standard_normal(len(knob.choices)) for knob in SPACE.knobs]
    rows = np.unique(some_rows(200, seed=2)[50:], axis=0)
    truth = np.array([sum(w[c] for w, c in zip(worth, row, strict=True)) for row in rows])
    truth = (truth - truth.mean()) / truth.std()
    order = rng.permutation(len(rows))
    known, rest = order[:14], order[14:]
    fitter = Fitter(5, 0.0)
    settings = fitter.fit(METRIC.pairs(rows[known]), truth[known], 40)
    model = GaussianProcess(METRIC, rows[known], truth[known], settings)
    mean, deviation = model.predict(METRIC.features(rows[rest]))
    assert np.corrcoef(mean, truth[rest])[0, 1] > 0.7
    assert np.all(deviation > 0)
