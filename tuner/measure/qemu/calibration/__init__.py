"""Fits the timing model's assumed costs to measured cycles.

``samples`` reads measurements and finds the events of each under the simulator, ``fit`` chooses the
costs; ``calibrate`` joins them, says which costs the samples determine at all and how well unseen
ones are predicted, and writes the result. SciPy is needed: the extra ``calibrate``.
"""

from tuner.measure.qemu.calibration.calibrate import (
    TOLERANCE,
    Calibration,
    FittedParameter,
    UnresolvedError,
    calibrate,
    calibrated_text,
    default_place,
    parameters_to_fit,
    require_writable,
    write_parameters,
)
from tuner.measure.qemu.calibration.fit import require_scipy
from tuner.measure.qemu.calibration.samples import Sample, SampleSet, count_events, read_samples
from tuner.measure.qemu.predictor import Observation

__all__ = [
    "TOLERANCE",
    "Calibration",
    "FittedParameter",
    "Observation",
    "Sample",
    "SampleSet",
    "UnresolvedError",
    "calibrate",
    "calibrated_text",
    "count_events",
    "default_place",
    "parameters_to_fit",
    "read_samples",
    "require_scipy",
    "require_writable",
    "write_parameters",
]
