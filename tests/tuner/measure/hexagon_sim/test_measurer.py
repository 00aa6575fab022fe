"""Qualcomm's simulator as a measurer, against a stand-in that runs qemu-hexagon."""

from __future__ import annotations

import pytest

from tuner.errors import UserError
from tuner.measure.dsp.sdk import SDK_VARIABLES
from tuner.measure.hexagon_sim.device import HexagonSimMeasurer
from tuner.problem.target import find_target


def test_without_an_sdk_it_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SDK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with HexagonSimMeasurer() as measurer, pytest.raises(UserError) as caught:
        measurer.require(find_target("hexagon-v66"))
    assert SDK_VARIABLES[0] in caught.value.accepted
