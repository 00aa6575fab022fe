"""Trials as a data frame of pandas or polars, whichever is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from tuner.errors import ToolchainError, UserError
from tuner.records.trial import Trial

Library = Literal["pandas", "polars"]
_LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


def frame_of(trials: Sequence[Trial], library: Library | None = None) -> Any:
    """``trials`` as a ``DataFrame`` of ``library``, by default of the first one installed.

    Without either, ``ToolchainError`` names the command that installs one.
    """
    if library is not None and library not in _LIBRARIES:
        raise UserError(f"library='{library}'", accepted=" or ".join(_LIBRARIES))
    wanted = _LIBRARIES if library is None else (library,)
    for name in wanted:
        if find_spec(name) is not None:
            return import_module(name).DataFrame(columns_of(trials))
    raise ToolchainError(
        f"data frames need {' or '.join(wanted)}, which is not installed",
        next_step=f"pip install {wanted[0]}",
    )


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
