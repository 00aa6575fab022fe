"""How well fitted costs predict samples that were not fitted: cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tuner.measure.qemu.calibration.fit import Fitter, OnStep
from tuner.measure.qemu.calibration.observation import (
    Floats,
    Observation,
    Predictor,
    measured_logs,
)
from tuner.measure.qemu.parameters import Parameters

FOLDS = 5


@dataclass(frozen=True)
class ModelError:
    """Relative errors of the model's cycles over all samples, outliers included."""

    median: float
    percentile_90: float

    def __str__(self) -> str:
        return f"{self.median:.1%} median, {self.percentile_90:.1%} at the 90th percentile"

    def as_dict(self) -> dict[str, float]:
        """JSON form."""
        return {"median": round(self.median, 6), "percentile_90": round(self.percentile_90, 6)}


def error_of(parameters: Parameters, observations: Sequence[Observation]) -> ModelError:
    """What ``parameters`` get wrong."""
    logs = Predictor(observations).log_cycles(parameters) - measured_logs(observations)
    return _summary(np.abs(np.expm1(logs)))


def cross_validated(
    fitter: Fitter, observations: Sequence[Observation], on_step: OnStep = lambda: None
) -> ModelError:
    """What a fit gets wrong on samples that it has not seen. ``fitter`` has fitted all once.

    The samples are split into ``FOLDS`` parts, each predicted by a fit to the others. Repeats of
    an object stay together: otherwise it would have been seen. ``on_step`` is called after each.
    """
    errors = np.zeros(len(observations))
    for left_out in _folds(observations):
        kept = [i for i in range(len(observations)) if i not in left_out]
        parameters = fitter.refit(kept)
        unseen = [observations[i] for i in left_out]
        logs = Predictor(unseen).log_cycles(parameters) - measured_logs(unseen)
        errors[left_out] = np.abs(np.expm1(logs))
        on_step()
    return _summary(errors)


def _folds(observations: Sequence[Observation]) -> list[list[int]]:
    """Positions by fold. By digest, so that neither order nor likeness of samples matters."""
    objects = sorted({seen.object_digest for seen in observations})
    fold_of = {digest: i % FOLDS for i, digest in enumerate(objects)}
    return [
        [i for i, seen in enumerate(observations) if fold_of[seen.object_digest] == fold]
        for fold in range(min(FOLDS, len(objects)))
    ]


def _summary(errors: Floats) -> ModelError:
    return ModelError(float(np.median(errors)), float(np.percentile(errors, 90)))
