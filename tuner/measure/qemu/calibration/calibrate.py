"""Samples in, a file of timing parameters out: or the reason why these samples do not give one.

A fit always gives numbers, meaningful or not. Which costs the samples determine, and how closely,
is worked out near the fit: the logarithm of a sample's cycles is taken as linear in the costs
(slopes over a few per cent, wider than the model's kinks). With the samples' noise that gives the
covariance of the costs; outliers contribute nothing. The bounds enter as the spread of a uniform
distribution between them, so that a cost that nothing depends on comes out as uncertain as its
bounds, and correlations are always defined. Cross-validation then shows how well the fitted costs
predict samples that were not fitted. In the file only fitted values and their sources change.
"""

from __future__ import annotations

import difflib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tuner.errors import InternalError, UserError
from tuner.measure.qemu.calibration.fit import (
    EFFICIENCY,
    NOISE_DEVIATIONS,
    Fit,
    Fitter,
    measured_logs,
    unit,
)
from tuner.measure.qemu.cycles import Floats
from tuner.measure.qemu.model import ModelFile, Parameters, ParameterSpecs, parameters_of, parsed
from tuner.measure.qemu.predictor import Observation, Predictor
from tuner.measure.qemu.uncertain import fittable
from tuner.paths import writable

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
        """The kind of samples that determine the parameter."""
        return _SHOWN_BY.get(self.name, "schedules that differ in it")


class UnresolvedError(UserError):
    """The samples leave the parameters ``unresolved`` undetermined."""

    def __init__(self, unresolved: Sequence[Resolution], samples: int, noise: float) -> None:
        named = "; ".join(f"{r.name} ({_reason(r, noise)})" for r in unresolved)
        self.unresolved = tuple(unresolved)
        super().__init__(
            f"{samples} samples do not determine {_count(len(unresolved))} to within "
            f"{TOLERANCE:.0%}: {named}",
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


def require_resolved(found: Sequence[Resolution], fit: Fit) -> None:
    """Raises :class:`UnresolvedError` if a parameter is known less closely than ``TOLERANCE``."""
    unresolved = [r for r in found if r.relative > TOLERANCE]
    if unresolved:
        raise UnresolvedError(unresolved, len(fit.residuals), fit.noise)


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


def _reason(resolution: Resolution, noise: float) -> str:
    if resolution.largest_share == 0:
        return "no sample depends on it"
    known = f"known to {resolution.relative:.0%}: "
    rival = f"{resolution.rival:.3g} fits nearly as well" if resolution.rival is not None else ""
    if resolution.alone <= TOLERANCE and resolution.confused_with:
        confused = f"{known}confused with {' and '.join(resolution.confused_with[:2])}"
        return f"{confused}, and {rival}" if rival else confused
    if rival:
        return known + rival
    share = resolution.largest_share
    return f"{known}at most {share:.1%} of a sample's cycles depend on it, and noise is {noise:.1%}"


def _count(number: int) -> str:
    return "1 parameter" if number == 1 else f"{number} parameters"


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
    """The model's error with ``parameters``."""
    logs = Predictor(observations).log_cycles(parameters) - measured_logs(observations)
    return _summary(np.abs(np.expm1(logs)))


def cross_validated(fitter: Fitter, observations: Sequence[Observation]) -> ModelError:
    """The error of a fit on samples that it has not seen. ``fitter`` has fitted all once.

    The samples are split into ``FOLDS`` parts, each predicted by a fit to the others. Repeats of
    an object stay together: otherwise it would have been seen.
    """
    errors = np.zeros(len(observations))
    for left_out in _folds(observations):
        kept = [i for i in range(len(observations)) if i not in left_out]
        parameters = fitter.refit(kept)
        unseen = [observations[i] for i in left_out]
        logs = Predictor(unseen).log_cycles(parameters) - measured_logs(unseen)
        errors[left_out] = np.abs(np.expm1(logs))
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


@dataclass(frozen=True)
class Calibration:
    """The outcome of fitting ``samples`` samples.

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
            "parameters": [asdict(parameter) for parameter in self.fitted],
            "kept": list(self.kept),
            "error_before": self.before.as_dict(),
            "error_cross_validated": self.after.as_dict(),
            "noise": round(self.noise, 6),
            "outliers": list(self.outliers),
        }


def calibrate(
    observations: Sequence[Observation],
    specs: ParameterSpecs,
    fix: Sequence[str] = (),
) -> Calibration:
    """Fits the assumed parameters of ``specs``, without those in ``fix``, to ``observations``.

    Deterministic. Raises ``UserError`` for unknown names, too few observations, too many that
    contradict the others, and a fit that predicts unseen samples worse than ``specs``;
    ``UnresolvedError`` if a parameter comes out with a 95 % confidence interval of more than
    ``TOLERANCE``, relative, to either side; ``ToolchainError`` without SciPy.
    """
    names = parameters_to_fit(specs, fix)
    _require_enough(observations, names)
    fitter = Fitter(observations, specs, names)
    fit = fitter.fit()
    outliers = _outliers(observations, fit)
    found = resolutions(observations, specs, names, fit)
    require_resolved(found, fit)
    before = error_of(parameters_of(specs), observations)
    after = cross_validated(fitter, observations)
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


def parameters_to_fit(specs: ParameterSpecs, fix: Sequence[str] = ()) -> list[str]:
    """The names that :func:`calibrate` fits; ``UserError`` for unknown ones, or if none is left."""
    for name in fix:
        if name not in specs:
            near = difflib.get_close_matches(name, specs, n=1)
            raise UserError(
                f"--fix {name}: unknown parameter",
                accepted=", ".join(specs),
                next_step=f"did you mean {near[0]}?" if near else "",
            )
    names = [name for name in fittable(specs) if name not in fix]
    if not names:
        raise UserError("no parameter is left to fit", next_step="leave out a --fix")
    return names


def _require_enough(observations: Sequence[Observation], names: Sequence[str]) -> None:
    objects = len({seen.object_digest for seen in observations})
    least = max(LEAST_OBJECTS, OBJECTS_A_PARAMETER * len(names))
    if objects < least:
        raise UserError(
            f"{len(observations)} samples of {objects} different objects for {len(names)} "
            "parameters",
            accepted=f"samples of at least {least} different objects",
            next_step="measure more schedules, or fit fewer parameters with --fix",
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


def default_place(target: str) -> Path:
    """Where a calibration of ``target`` goes if nobody says otherwise: in the state directory."""
    return writable("timing") / f"{target}.toml"


def require_writable(place: Path, samples: Path) -> None:
    """``UserError`` if ``place`` cannot be written, or is the file of ``samples`` itself."""
    if place.exists() and place.samefile(samples):
        raise UserError(
            f"{place} holds the samples", accepted="another file to write the parameters to"
        )
    reason = "a folder" if place.is_dir() else "its folder is missing or closed"
    if place.is_dir() or not os.access(place.parent, os.W_OK | os.X_OK):
        raise UserError(
            f"cannot write {place}: {reason}",
            accepted="a file in a folder you can write to",
        )


def write_parameters(place: Path, text: str) -> None:
    """Writes ``text`` to ``place``, whole or not at all. ``UserError`` if that cannot be done."""
    partial = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        partial.write_text(text)
        partial.replace(place)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(
            f"cannot write {place}: {error.strerror}",
            accepted="a file in a folder you can write to",
        ) from None


def calibrated_text(file: ModelFile, calibration: Calibration, origin: str) -> str:
    """The text of ``file`` with the fitted values, and their sources replaced.

    ``origin`` says where the samples come from. Comments, bounds and all other entries stay.
    Raises ``UserError`` if the file does not give a fitted parameter a table of its own.
    """
    text = file.text
    for fitted in calibration.fitted:
        text = _replaced(text, fitted, _source(calibration, fitted, origin), file)
    written = parsed(file.path, text).specs
    for fitted in calibration.fitted:
        if written[fitted.name].value != fitted.value:
            raise InternalError(
                f"parameter {fitted.name} was written as {written[fitted.name].value}, not "
                f"{fitted.value}"
            )
    return text


def _source(calibration: Calibration, fitted: FittedParameter, origin: str) -> str:
    bound = ", at its bound" if fitted.at_bound else ""
    return (
        f"calibrated: {calibration.samples} samples, {origin}; cross-validated error "
        f"{calibration.after}; +- {fitted.interval:g} at 95 % confidence{bound}; "
        f"was {fitted.before:g}"
    )


def _replaced(text: str, fitted: FittedParameter, source: str, file: ModelFile) -> str:
    table = re.search(
        rf"^\[parameters\.{re.escape(fitted.name)}\][^\n]*\n(?:(?!\[).*\n?)*", text, re.MULTILINE
    )
    if table is None:
        raise UserError(
            f"{file.path} has no table [parameters.{fitted.name}] to write to",
            accepted="a file laid out like the packaged one",
        )
    body = _with_line(table.group(), "value", f"{fitted.value!r}")
    # JSON's strings are TOML's, as long as they hold no escaped pairs of surrogates.
    body = _with_line(body, "source", json.dumps(source, ensure_ascii=False))
    return text[: table.start()] + body + text[table.end() :]


def _with_line(table: str, key: str, value: str) -> str:
    line = rf"^[ \t]*{key}[ \t]*=.*$"
    return re.sub(line, lambda _: f"{key} = {value}", table, count=1, flags=re.MULTILINE)
