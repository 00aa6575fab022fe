"""Trials as a data frame of pandas."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tuner.errors import ToolchainError
from tuner.records.trial import Trial


def frame_of(trials: Sequence[Trial]) -> Any:
    """``trials`` as a ``pandas.DataFrame``; ``ToolchainError`` without pandas."""
    if find_spec("pandas") is None:
        raise ToolchainError(
            "data frames need pandas, which is not installed", next_step="pip install pandas"
        )
    return import_module("pandas").DataFrame(columns_of(trials))


def columns_of(trials: Sequence[Trial]) -> dict[str, list[Any]]:
    """The columns of the frame, a value for each trial.

    Times are Unix seconds. Figures of trials without a measurement are ``None``, as is
    ``config_KNOB`` where a config has no such knob.
    """
    figures = ("cycles", "packets", "stalls", "fidelity", "device", "code_bytes", "vtcm_bytes")
    knobs = dict.fromkeys(knob for trial in trials for knob in trial.config)
    return {
        "trial": [trial.number for trial in trials],
        "origin": [trial.origin for trial in trials],
        "outcome": [trial.outcome.value for trial in trials],
        **{
            name: [t.measurement and getattr(t.measurement, name) for t in trials]
            for name in figures
        },
        "error": [trial.error for trial in trials],
        "started_at": [trial.started_at for trial in trials],
        "finished_at": [trial.finished_at for trial in trials],
        **{f"config_{knob}": [trial.config.get(knob) for trial in trials] for knob in knobs},
    }
