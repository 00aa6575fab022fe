"""Qualcomm's simulator as a measurer, against a stand-in that runs qemu-hexagon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.stand_in_sdk import make_sdk
from tuner.conformance.measurers import MeasurerConformance
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import UserError
from tuner.measure import Measurer
from tuner.measure.dsp.sdk import SDK_VARIABLES
from tuner.measure.hexagon_sim.device import HexagonSimMeasurer
from tuner.problem.target import find_target

pytestmark = pytest.mark.slow


class TestHexagonSimMeasurer(MeasurerConformance):
    flags = ("-fPIC",)
    counts_packets = False
    refuses_system_calls = True
    knows_every_instruction = False

    @pytest.fixture
    def measurer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Measurer]:
        monkeypatch.setenv(SDK_VARIABLES[0], str(make_sdk(tmp_path / "sdk")))
        with HexagonSimMeasurer(timeout_s=PATIENCE_S) as measurer:
            measurer.require(find_target("hexagon-v66"))
            yield measurer

    @pytest.fixture
    def hasty_measurer(self, measurer: Measurer) -> Iterator[Measurer]:
        with HexagonSimMeasurer(timeout_s=3) as made:
            made.require(find_target("hexagon-v66"))
            yield made


def test_without_an_sdk_it_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SDK_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with HexagonSimMeasurer() as measurer, pytest.raises(UserError) as caught:
        measurer.require(find_target("hexagon-v66"))
    assert SDK_VARIABLES[0] in caught.value.accepted
