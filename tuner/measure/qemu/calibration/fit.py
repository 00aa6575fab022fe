"""Chooses costs so that the model's cycles come close to the measured ones.

Least squares on the logarithms of cycles, so that each sample counts by its relative error, with
SciPy's ``least_squares`` (trust region reflective, within the bounds of the parameter file). The
loss is robust: soft L1 first, which leads to a minimum from afar, then Cauchy's, under which a
sample that is far off pulls the less the further off it is. Bandwidths and overlaps give several
local minima: the fit starts from many points, always the same ones.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuner.errors import ToolchainError
from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.model import Parameters, ParameterSpecs, parameters_of
from tuner.measure.qemu.predictor import Observation, Predictor


def measured_logs(observations: Sequence[Observation]) -> Floats:
    """Natural logarithms of the measured cycles."""
    logs: Floats = np.log([seen.cycles for seen in observations])
    return logs


_FIRST_SCALE = 0.1
"""Relative error from which samples count less, before the samples' own noise is known."""
NOISE_FLOOR = 0.01
"""Relative noise that is assumed at least: nobody measures, or models, closer than a percent."""
_POINTS, _STARTS = 64, 12
"""Points over the bounds that are looked at, and the best of them that fits start from."""
_MOST_STEPS = 60
"""Of a descent. Those with a minimum to find take about 20; along a valley they never end."""
_MAD_TO_DEVIATION = 1.4826
"""Standard deviations in a median absolute deviation, for a normal distribution."""
NOISE_DEVIATIONS = 3.0
"""Standard deviations up to which an error is noise. Beyond, one in 370 would be."""
_CAUCHY_DEVIATIONS = 2.385
"""Scale of Cauchy's loss at which ``EFFICIENCY`` of what normal noise lets through is kept
(Holland and Welsch 1977, "Robust regression using iteratively reweighted least-squares")."""
EFFICIENCY = 0.95
"""Share of what samples with normal noise tell that is left under that loss."""
_RIVAL_LOG_LIKELIHOOD = 6.0
"""Minima worse by less are not ruled out. Between points far apart the usual 1.92 of a 95 %
interval decides wrongly too often: in trials on made samples, one time in eight."""
_SAME_MINIMUM = 0.02
"""Minima closer than this in all parameters, in their units, are one."""


@dataclass(frozen=True)
class Fit:
    """``parameters`` are all parameters, those that were not fitted as they were.

    ``rivals`` are other minima that explain the samples nearly as well. ``residuals`` are the
    logarithms of model over measured, one for each observation. ``noise`` is their standard
    deviation, outliers left out.
    """

    parameters: Parameters
    rivals: tuple[Parameters, ...]
    residuals: Floats
    noise: float

    def within(self, deviations: float) -> NDArray[np.bool_]:
        """Which observations are within this number of standard deviations."""
        close: NDArray[np.bool_] = np.abs(self.residuals) <= deviations * self.noise
        return close


@dataclass(frozen=True)
class _Minimum:
    values: Floats
    cost: float


def require_scipy() -> None:
    """Raises ``ToolchainError`` with the command that installs SciPy if it is missing."""
    if importlib.util.find_spec("scipy") is None:
        raise ToolchainError(
            "calibration needs the Python package 'scipy', which is missing",
            next_step="run `pip install scipy` in the environment of hvxtune, "
            "or install hvxtune[calibrate]",
        )


class Fitter:
    """Fits ``names`` to any of ``observations``; the other parameters stay at ``specs``."""

    def __init__(
        self, observations: Sequence[Observation], specs: ParameterSpecs, names: Sequence[str]
    ) -> None:
        require_scipy()
        self._observations = observations
        self._names = names
        self._given = parameters_of(specs)
        self._low = np.array([specs[name].low for name in names])
        self._high = np.array([specs[name].high for name in names])
        self._units = np.array([unit(specs, name, specs[name].value) for name in names])
        self._minima: list[_Minimum] = []

    def fit(self) -> Fit:
        """The best fit to all observations."""
        errors = _Errors(self._observations)
        found = [
            self._descend(errors, start, "soft_l1", _FIRST_SCALE).values
            for start in self._starts(errors)
        ]
        self._minima, noise = self._polished(errors, found)
        best = self._minima[0]
        residuals = errors.of(self._parameters(best.values))
        least = best.cost + _RIVAL_LOG_LIKELIHOOD * noise**2
        return Fit(
            self._parameters(best.values),
            tuple(self._parameters(m.values) for m in self._minima[1:] if m.cost < least),
            residuals,
            noise,
        )

    def refit(self, chosen: Sequence[int]) -> Parameters:
        """The best fit to the observations at the positions ``chosen``, after :meth:`fit`.

        Starts from the minima that were found for all: where minima lie is a matter of the model,
        which of them is the lowest is decided by the chosen ones alone.
        """
        errors = _Errors([self._observations[i] for i in chosen])
        minima, _ = self._polished(errors, [minimum.values for minimum in self._minima])
        return self._parameters(minima[0].values)

    def _polished(self, errors: _Errors, found: Sequence[Floats]) -> tuple[list[_Minimum], float]:
        """The minima near ``found``, lowest first, and the noise, by which outliers are told."""
        distances = [errors.of(self._parameters(values)) for values in found]
        noise = min(self._noise(residuals) for residuals in distances)
        minima: list[_Minimum] = []
        for values in found:
            minimum = self._descend(errors, values, "cauchy", _CAUCHY_DEVIATIONS * noise)
            apart = [np.abs(minimum.values - m.values) / self._units for m in minima]
            if all(distance.max() > _SAME_MINIMUM for distance in apart):
                minima.append(minimum)
        minima.sort(key=lambda minimum: minimum.cost)
        return minima, self._noise(errors.of(self._parameters(minima[0].values)))

    def _parameters(self, values: Floats) -> Parameters:
        fitted = zip(self._names, values.tolist(), strict=True)
        return replace(self._given, **dict(fitted))

    def _noise(self, residuals: Floats) -> float:
        """Standard deviation of ``residuals``; what lies far out by the median is left out."""
        spread = max(_MAD_TO_DEVIATION * float(np.median(np.abs(residuals))), NOISE_FLOOR)
        inner = residuals[np.abs(residuals) <= NOISE_DEVIATIONS * spread]
        free = max(len(inner) - len(self._names), 1)
        return max(math.sqrt(float(inner @ inner) / free), NOISE_FLOOR)

    def _starts(self, errors: _Errors) -> list[Floats]:
        """The file's values, and the best of points over the bounds, denser towards low ones."""
        from scipy.stats import qmc

        given = np.array([getattr(self._given, name) for name in self._names])
        points = qmc.Sobol(len(self._names), scramble=False).random(_POINTS)
        spread = self._low + (self._high - self._low) * points**2
        residuals = np.array([errors.of(self._parameters(point)) for point in spread])
        costs = np.sum(np.sqrt(1 + (residuals / _FIRST_SCALE) ** 2), axis=1)
        return [given, *spread[np.argsort(costs, kind="stable")[:_STARTS]]]

    def _descend(self, errors: _Errors, start: Floats, loss: str, scale: float) -> _Minimum:
        """The local minimum below ``start``."""
        from scipy.optimize import least_squares

        def residuals(scaled: Floats) -> Floats:
            values = np.clip(scaled * self._units, self._low, self._high)
            return errors.of(self._parameters(values))

        found = least_squares(
            residuals,
            np.clip(start, self._low, self._high) / self._units,
            bounds=(self._low / self._units, self._high / self._units),
            loss=loss,
            f_scale=scale,
            diff_step=1e-4,
            max_nfev=_MOST_STEPS,
        )
        values = np.clip(found.x * self._units, self._low, self._high)
        return _Minimum(values, float(found.cost))


class _Errors:
    """Logarithms of model over measured cycles."""

    def __init__(self, observations: Sequence[Observation]) -> None:
        self._predictor = Predictor(observations)
        self._measured = measured_logs(observations)

    def of(self, parameters: Parameters) -> Floats:
        """One for each observation."""
        errors: Floats = self._predictor.log_cycles(parameters) - self._measured
        return errors


def unit(specs: ParameterSpecs, name: str, value: float) -> float:
    """The unit of errors of a parameter near ``value``: the value, or a twentieth of
    its range where that is more, so that costs that may be zero have a unit too."""
    return max(value, 0.05 * (specs[name].high - specs[name].low))
