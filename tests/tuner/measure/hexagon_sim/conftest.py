"""The stand-in for hexagon-sim is a Python script that runs QEMU: both lie outside of its SDK."""

from __future__ import annotations

import sys

import pytest

from tests.rig.phones.packages import linked_loader
from tuner.measure.dsp.sdk import MORE_READS_VARIABLE
from tuner.measure.qemu.simulator import find_simulator


@pytest.fixture(autouse=True)
def what_the_stand_in_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [part for part in find_simulator().command if part.startswith("/")]
    reads = [sys.prefix, sys.base_prefix, str(linked_loader()), *programs]
    monkeypatch.setenv(MORE_READS_VARIABLE, ":".join(reads))
