"""Calibration on samples made with known parameters: found again, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pytest

from tests.tuner.measure.qemu.made_events import (
    KINDS,
    observed,
)
from tuner.errors import UserError
from tuner.measure.qemu.calibration import (
    Observation,
    calibrate,
)
from tuner.measure.qemu.model import (
    Parameters,
    ParameterSpecs,
    load_model,
    model_path,
)

PARALLEL = ("l2_bandwidth", "parallel_loop", "task")
RARE = ("gather", "scatter")
COMMON = [kind for kind in KINDS if kind not in ("gathers", "scatters")]
TRUE: Mapping[str, float] = {
    "mispredict": 8.0,
    "l1_miss": 9.0,
    "l2_access": 0.4,
    "gather": 9.0,
    "scatter": 3.0,
    "ddr_latency": 180.0,
    "ddr_overlap": 24.0,
    "ddr_bandwidth": 9.0,
    "l2_bandwidth": 2.5,
    "parallel_loop": 3000.0,
    "task": 150.0,
}
"""What the made samples follow: every assumed parameter far from the packaged file's value."""
WRONG = {5: 2.0, 17: 0.5, 30: 3.0}
"""Three of forty samples are grossly wrong."""


@pytest.fixture(scope="module")
def specs() -> ParameterSpecs:
    return load_model(model_path("v66")).specs


@pytest.fixture(scope="module")
def true() -> Parameters:
    return replace(load_model(model_path("v66")).parameters, **TRUE)


def made(
    true: Parameters,
    kinds: Sequence[str],
    number: int = 40,
    *,
    seed: int = 1,
    noise: float = 0.03,
    outliers: Mapping[int, float] | None = None,
) -> list[Observation]:
    """``number`` samples with 3 % noise, of each kind in turn."""
    chosen = list(islice(cycle(kinds), number))
    rng = np.random.default_rng(seed)
    return observed(rng, true, chosen, noise=noise, outliers=outliers)


@pytest.fixture(scope="module")
def samples(true: Parameters) -> list[Observation]:
    return made(true, COMMON, outliers=WRONG)


# What samples cannot tell


# Samples that cannot be used


def test_too_few_samples_are_refused(true: Parameters, specs: ParameterSpecs) -> None:
    with pytest.raises(UserError, match="at least 10 different objects"):
        calibrate(made(true, COMMON, 9), specs, fix=[name for name in TRUE if name != "l1_miss"])
    with pytest.raises(UserError, match="at least 22 different objects"):
        calibrate(made(true, COMMON, 21), specs)


def test_samples_that_contradict_each_other_are_refused_by_line(
    samples: list[Observation], specs: ParameterSpecs
) -> None:
    mixed = [replace(s, cycles=s.cycles * (40 if s.line % 3 == 0 else 1)) for s in samples]
    with pytest.raises(UserError, match=r"samples contradict the others: lines 3, 5?(, )?6, 9"):
        calibrate(mixed, specs, fix=(*PARALLEL, *RARE))


# The file
