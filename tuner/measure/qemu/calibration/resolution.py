"""Which costs the samples tell, and how closely: a fit always gives numbers, meaning or not.

Near the fit, the logarithm of a sample's cycles is taken as linear in the costs (slopes over a few
per cent, wider than the model's kinks). With the samples' noise that gives the covariance of the
costs; outliers tell nothing. The bounds enter as the spread of a uniform distribution between
them, so that a cost that nothing depends on comes out as uncertain as its bounds, and correlations
are always defined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tuner.errors import UserError
from tuner.measure.qemu.calibration.fit import EFFICIENCY, NOISE_DEVIATIONS, Fit, unit
from tuner.measure.qemu.calibration.observation import Floats, Observation, Predictor
from tuner.measure.qemu.parameters import ParameterSpecs

_STEP = 0.03
"""Half the distance over which slopes are taken, in the parameter's unit."""
_MUCH_NOISE = 0.3
"""Relative noise beyond which it is rather the samples, or how they were read, that are wrong."""
_WRONG_UNIT = "see that each sample is one call, as cycles or pcycles says; then "
_TOGETHER = 0.5
"""Correlation from which two costs are said to be confused."""

_SHOWN_BY = {
    "mispredict": "loops of few iterations (small extents, odd ones under contract none)",
    "loop_end": "short inner loops of few packets",
    "line_split": "unaligned vectors (contract none or host, odd widths)",
    "l1_miss": "scalar loads over more data than L1 holds, with cache warm",
    "l2_access": "many vector loads and stores for little arithmetic, with cache warm",
    "vtcm_access": "kernels that keep data in VTCM",
    "gather": "kernels that gather (vgather)",
    "scatter": "kernels that scatter (vscatter)",
    "ddr_latency": "few or scattered loads, with cache cold",
    "ddr_overlap": "loads close together and far apart, with cache cold",
    "ddr_bandwidth": "large buffers and little arithmetic, with cache cold",
    "l2_bandwidth": "parallel loops of many loads, with cache warm",
    "parallel_loop": "parallel loops with little work",
    "task": "parallel loops of many small tasks",
}


@dataclass(frozen=True)
class Resolution:
    """How closely a parameter is known.

    ``interval`` is half of its 95 % confidence interval, in the parameter's own unit, and
    ``relative`` the same as a share of :func:`~tuner.measure.qemu.calibration.fit.unit`. ``alone``
    is what ``relative`` would be if all other parameters were known. ``largest_share`` is the
    largest change of a sample's cycles, relative, when the parameter changes by its unit.
    ``confused_with`` are parameters that could make up for this one.
    """

    name: str
    interval: float
    relative: float
    alone: float
    largest_share: float
    confused_with: tuple[str, ...]
    rival: float | None
    """A value far off that fits nearly as well; ``interval`` then reaches to it."""

    @property
    def advice(self) -> str:
        """The kind of samples that tell the parameter."""
        return _SHOWN_BY.get(self.name, "schedules that differ in it")


class UnresolvedError(UserError):
    """The samples do not tell some parameters; ``unresolved`` are those."""

    def __init__(
        self, unresolved: Sequence[Resolution], samples: int, tolerance: float, noise: float
    ) -> None:
        named = "; ".join(f"{r.name} ({_reason(r, tolerance, noise)})" for r in unresolved)
        self.unresolved = tuple(unresolved)
        super().__init__(
            f"{samples} samples do not tell {_count(len(unresolved))} to within "
            f"{tolerance:.0%}: {named}",
            accepted="samples that show each: "
            + "; ".join(f"for {r.name} {r.advice}" for r in unresolved),
            next_step=(_WRONG_UNIT if noise > _MUCH_NOISE else "")
            + "add such samples, or leave these as they are: "
            + " ".join(f"--fix {r.name}" for r in unresolved),
        )


def resolutions(
    observations: Sequence[Observation], specs: ParameterSpecs, names: Sequence[str], fit: Fit
) -> list[Resolution]:
    """How closely ``fit`` knows each of ``names``."""
    from scipy.stats import t as student

    units = np.array([unit(specs, name, getattr(fit.parameters, name)) for name in names])
    slopes = _slopes(Predictor(observations), specs, names, fit, units)
    close = fit.within(NOISE_DEVIATIONS)
    seen = slopes[close] * math.sqrt(EFFICIENCY) / fit.noise
    spread = np.array([(specs[name].high - specs[name].low) / 12**0.5 for name in names]) / units
    covariance = np.linalg.inv(seen.T @ seen + np.diag(spread**-2))
    deviations = np.sqrt(np.diag(covariance))
    correlation = np.abs(covariance / np.outer(deviations, deviations))
    alone = 1 / np.sqrt(np.sum(seen**2, axis=0) + spread**-2)
    to_95 = float(student.ppf(0.975, max(int(close.sum()) - len(names), 1)))
    found = []
    for i, name in enumerate(names):
        order = np.argsort(-correlation[i], kind="stable")
        confused = [names[j] for j in order if j != i and correlation[i, j] > _TOGETHER]
        local = float(to_95 * deviations[i] * units[i])
        rival, apart = _furthest_rival(fit, name)
        interval = max(local, apart)
        found.append(
            Resolution(
                name,
                interval=interval,
                relative=interval / float(units[i]),
                alone=float(to_95 * alone[i]),
                largest_share=float(np.max(np.abs(slopes[:, i]))),
                confused_with=tuple(confused),
                rival=rival if apart > local else None,
            )
        )
    return found


def _furthest_rival(fit: Fit, name: str) -> tuple[float | None, float]:
    """The value that differs most in fits that are nearly as good, and by how much."""
    value = getattr(fit.parameters, name)
    others = [getattr(rival, name) for rival in fit.rivals]
    rival = max(others, key=lambda other: abs(other - value), default=None)
    return rival, 0.0 if rival is None else abs(rival - value)


def require_resolved(found: Sequence[Resolution], fit: Fit, tolerance: float) -> None:
    """Raises :class:`UnresolvedError` if a parameter is known less closely than ``tolerance``."""
    unresolved = [r for r in found if r.relative > tolerance]
    if unresolved:
        raise UnresolvedError(unresolved, len(fit.residuals), tolerance, fit.noise)


def _slopes(
    predictor: Predictor, specs: ParameterSpecs, names: Sequence[str], fit: Fit, units: Floats
) -> Floats:
    """Change of the logarithm of each sample's cycles by a unit of each parameter."""
    columns = []
    for name, size in zip(names, units, strict=True):
        value = getattr(fit.parameters, name)
        below = max(value - _STEP * size, specs[name].low)
        above = min(value + _STEP * size, specs[name].high)
        rise = predictor.log_cycles(replace(fit.parameters, **{name: above}))
        rise -= predictor.log_cycles(replace(fit.parameters, **{name: below}))
        columns.append(rise * (size / (above - below)))
    slopes: Floats = np.array(columns).T
    return slopes


def _reason(resolution: Resolution, tolerance: float, noise: float) -> str:
    if resolution.largest_share == 0:
        return "no sample depends on it"
    known = f"known to {resolution.relative:.0%}: "
    if resolution.rival is not None:
        return f"{known}{resolution.rival:.3g} fits nearly as well"
    if resolution.alone <= tolerance and resolution.confused_with:
        return f"{known}confused with {' and '.join(resolution.confused_with[:2])}"
    share = resolution.largest_share
    return f"{known}at most {share:.1%} of a sample's cycles depend on it, and noise is {noise:.1%}"


def _count(number: int) -> str:
    return "1 parameter" if number == 1 else f"{number} parameters"
