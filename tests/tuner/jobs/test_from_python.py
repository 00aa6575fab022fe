"""Tuning from Python: what ``help`` shows, and data frames."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import tuner
from tests.rig.scale_u8 import KERNELS
from tests.rig.stand_ins import StandInMeasurer, standing_in_for
from tuner.errors import ToolchainError, UserError
from tuner.executor import executor
from tuner.jobs import frames
from tuner.kernels import EXTRA_KERNELS_VARIABLE

OPTIONS: dict[str, Any] = {"trials": 6, "workers": 1, "generator": "halide"}


@pytest.fixture
def stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
    monkeypatch.setattr(executor, "find_generator", standing_in_for)
    monkeypatch.setattr("tuner.measure.find_measurer", lambda name: StandInMeasurer)


@pytest.mark.parametrize("function", [tuner.tune, tuner.tune_pipeline, tuner.submit])
def test_a_misspelt_keyword_names_the_nearest_of_all(function: Any) -> None:
    for given, meant in (("trails", "trials"), ("stor", "store")):
        message = rf"{function.__name__}\(\) has no keyword '{given}'"
        with pytest.raises(UserError, match=message) as refused:
            function("scale_u8", **{given: 3})
        assert refused.value.next_step == f"did you mean {meant}?"
        assert meant in refused.value.accepted


def test_trials_become_a_data_frame(stand_ins: None) -> None:
    found = tuner.tune("scale_u8", **OPTIONS)
    told = f"{found.job.id}: scale_u8"
    assert told in repr(found)
    assert "done, 6 trials (6 ok); best " in repr(found)
    assert len(repr(found)) < 250
    frame = found.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame["trial"]) == [trial.number for trial in found.trials] == list(range(6))
    assert set(frame["outcome"]) == {"ok"}
    assert set(frame["fidelity"]) == {"model"}
    best = frame.loc[frame["cycles"].idxmin()]
    assert found.best is not None
    assert {
        knob: best[f"config_{knob}"] for knob in found.best.config
    } == found.best.config.as_dict()


def test_without_pandas_the_command_is_named(stand_ins: None, monkeypatch: Any) -> None:
    found = tuner.tune("scale_u8", **OPTIONS)
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(ToolchainError, match="pip install pandas"):
        found.to_frame()
