"""Samples in, parameters out: or the reason why these samples do not give them."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tuner.errors import UserError
from tuner.measure.qemu.calibration.fit import FIT_STEPS, Fit, Fitter, OnStep
from tuner.measure.qemu.calibration.observation import Observation
from tuner.measure.qemu.calibration.resolution import (
    Resolution,
    require_resolved,
    resolutions,
)
from tuner.measure.qemu.calibration.validation import FOLDS, ModelError, cross_validated, error_of
from tuner.measure.qemu.parameters import Parameters, ParameterSpecs, parameters_of

TOLERANCE = 0.1
"""Half of the 95 % confidence interval that a fitted parameter may have, relative to its value."""
LEAST_OBJECTS = 10
OBJECTS_A_PARAMETER = 2
"""Different objects needed at least, in all and for each fitted parameter."""
_OUTLIER_DEVIATIONS = 5.0
_MOST_OUTLIERS = 0.2
"""Share of samples beyond which it is the others that may be wrong."""


@dataclass(frozen=True)
class FittedParameter:
    """A parameter before and after. ``interval`` is half of the 95 % confidence interval;
    ``at_bound`` says that the samples would take the parameter out of its bounds."""

    name: str
    before: float
    value: float
    interval: float
    at_bound: bool

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "name": self.name,
            "before": self.before,
            "value": self.value,
            "interval": self.interval,
            "at_bound": self.at_bound,
        }


@dataclass(frozen=True)
class Calibration:
    """What ``samples`` samples came to.

    ``parameters`` are all parameters, ``fitted`` those that were chosen and ``kept`` the names of
    assumed ones that were not. ``before`` is the error with the parameters one had, ``after`` the
    cross-validated error. ``outliers`` are lines of samples that the model misses by far more
    than the others; they had little influence. ``noise`` is the relative deviation of the others.
    """

    samples: int
    parameters: Parameters
    fitted: tuple[FittedParameter, ...]
    kept: tuple[str, ...]
    before: ModelError
    after: ModelError
    noise: float
    outliers: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "samples": self.samples,
            "parameters": [parameter.as_dict() for parameter in self.fitted],
            "kept": list(self.kept),
            "error_before": self.before.as_dict(),
            "error_cross_validated": self.after.as_dict(),
            "noise": round(self.noise, 6),
            "outliers": list(self.outliers),
        }


def calibrate(
    observations: Sequence[Observation],
    specs: ParameterSpecs,
    *,
    fix: Sequence[str] = (),
    only: Sequence[str] = (),
    tolerance: float = TOLERANCE,
    on_progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Fits the assumed parameters of ``specs``, without those in ``fix``, to ``observations``.

    ``only`` names the parameters to fit instead, assumed or not. Deterministic. ``on_progress`` is
    called with the numbers of steps done and of all. Raises
    ``UserError`` for unknown names, too few observations, too many that contradict the others,
    and a fit that predicts unseen samples worse than ``specs``; ``UnresolvedError`` if a parameter
    comes out with a 95 % confidence interval of more than ``tolerance``, relative, to either side;
    ``ToolchainError`` without SciPy.
    """
    names = parameters_to_fit(specs, fix, only)
    _require_enough(observations, names)
    on_step = _steps(on_progress)
    fitter = Fitter(observations, specs, names)
    fit = fitter.fit(on_step)
    outliers = _outliers(observations, fit)
    found = resolutions(observations, specs, names, fit)
    require_resolved(found, fit, tolerance)
    before = error_of(parameters_of(specs), observations)
    after = cross_validated(fitter, observations, on_step)
    if after.median >= before.median and after.percentile_90 >= before.percentile_90:
        raise UserError(
            f"nothing to gain: unseen samples come out worse after a fit ({after}) than with the "
            f"values of the file ({before})",
            accepted="samples that other values explain better",
            next_step="keep the file, or add samples",
        )
    return Calibration(
        samples=len(observations),
        parameters=fit.parameters,
        fitted=tuple(_fitted(specs, fit, resolution) for resolution in found),
        kept=tuple(name for name in fittable(specs) if name not in names),
        before=before,
        after=after,
        noise=fit.noise,
        outliers=outliers,
    )


def _steps(on_progress: Callable[[int, int], None] | None) -> OnStep:
    """Counts steps for ``on_progress``."""
    numbers = itertools.count(1)

    def step() -> None:
        if on_progress is not None:
            on_progress(next(numbers), FIT_STEPS + FOLDS)

    return step


def fittable(specs: ParameterSpecs) -> list[str]:
    """The parameters whose values nobody has published: assumed, or calibrated before."""
    return [
        name
        for name, spec in specs.items()
        if spec.source.startswith(("assumed", "calibrated")) and spec.low < spec.high
    ]


def parameters_to_fit(
    specs: ParameterSpecs, fix: Sequence[str] = (), only: Sequence[str] = ()
) -> list[str]:
    """The names that :func:`calibrate` fits; ``UserError`` for unknown ones, or if none is left."""
    for option, given in (("--fix", fix), ("--only", only)):
        for name in given:
            if name not in specs:
                near = difflib.get_close_matches(name, specs, n=1)
                raise UserError(
                    f"{option} {name}: unknown parameter",
                    accepted=", ".join(specs),
                    next_step=f"did you mean {near[0]}?" if near else "",
                )
    names = [name for name in (only or fittable(specs)) if name not in fix]
    names = list(dict.fromkeys(names))
    for name in names:
        if specs[name].low == specs[name].high:
            raise UserError(
                f"--only {name}: its bounds leave no choice", accepted=", ".join(fittable(specs))
            )
    if not names:
        raise UserError(
            "no parameter is left to fit",
            accepted=", ".join(fittable(specs)) or "--only NAME",
            next_step="leave out a --fix",
        )
    return names


def _require_enough(observations: Sequence[Observation], names: Sequence[str]) -> None:
    objects = len({seen.object_digest for seen in observations})
    least = max(LEAST_OBJECTS, OBJECTS_A_PARAMETER * len(names))
    if objects < least:
        raise UserError(
            f"{len(observations)} samples of {objects} different objects for {len(names)} "
            "parameters",
            accepted=f"samples of at least {least} different objects",
            next_step="measure more schedules, or fit fewer parameters with --only or --fix",
        )


def _outliers(observations: Sequence[Observation], fit: Fit) -> tuple[int, ...]:
    """The lines of outliers, if they are few."""
    far = np.flatnonzero(~fit.within(_OUTLIER_DEVIATIONS))
    lines = tuple(sorted(observations[int(i)].line for i in far))
    if len(lines) > _MOST_OUTLIERS * len(observations):
        shown = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
        raise UserError(
            f"{len(lines)} of {len(observations)} samples contradict the others: lines {shown}",
            accepted=f"at most {_MOST_OUTLIERS:.0%} of them",
            next_step="see that all are in the same unit, of one device and of a quiet machine",
        )
    return lines


def _fitted(specs: ParameterSpecs, fit: Fit, resolution: Resolution) -> FittedParameter:
    spec = specs[resolution.name]
    value = float(f"{getattr(fit.parameters, resolution.name):.6g}")
    value = min(max(value, spec.low), spec.high)
    margin = 1e-3 * (spec.high - spec.low)
    return FittedParameter(
        resolution.name,
        before=spec.value,
        value=value,
        interval=float(f"{resolution.interval:.2g}"),
        at_bound=not spec.low + margin < value < spec.high - margin,
    )
