"""A measurer that gives up what it is running."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.rig.scale_u8 import ScaleU8
from tests.rig.stand_ins import StandInMeasurer
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import DeviceError, OutOfTimeError
from tuner.identity import digest_of_bytes
from tuner.measure.measurer import AbandonableMeasurer
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact

PROBLEM = ScaleU8().problem({}, Contract.STATIC, find_target("hexagon-v66"))
ARTIFACT = Artifact(digest_of_bytes(b"code"), "code", {"object": b"code"})


def test_a_run_under_way_is_ended_and_nobody_is_to_blame() -> None:
    running, closed = threading.Event(), threading.Event()

    class Endless(StandInMeasurer):
        def close(self) -> None:
            closed.set()

    def run(text: str) -> int:
        running.set()
        assert closed.wait(PATIENCE_S)
        raise DeviceError("the simulator was closed")

    measurer = AbandonableMeasurer(Endless(run))
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(measurer.measure, PROBLEM, ARTIFACT)
        assert running.wait(PATIENCE_S)
        measurer.abandon()
        with pytest.raises(OutOfTimeError):
            result.result(PATIENCE_S)


def test_nothing_is_run_afterwards() -> None:
    inner = StandInMeasurer()
    measurer = AbandonableMeasurer(inner)
    measurer.abandon()
    with pytest.raises(OutOfTimeError):
        measurer.measure(PROBLEM, ARTIFACT)
    assert not inner.measured
