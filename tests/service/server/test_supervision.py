"""Conductor processes are kept running and ended in order; stand-ins for the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.server import supervision
from service.server.supervision import Conductors
from tuner.conformance.patience import PATIENCE_S, until

DRAINS = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def drain(number, frame):
    (folder / f"drained-{os.getpid()}").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, drain)
(folder / f"started-{os.getpid()}").touch()
sys.stdin.buffer.read()
(folder / f"left-{os.getpid()}").touch()
"""

DIES = """
import os, pathlib, sys
(pathlib.Path(sys.argv[1]) / f"started-{os.getpid()}").touch()
sys.exit(3)
"""


def names(folder: Path, kind: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{kind}-*"))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Conductors]]:
    monkeypatch.setattr(supervision, "FIRST_DELAY_S", 0.05)
    made: list[Conductors] = []

    def start(count: int, program: str) -> Conductors:
        conductors = Conductors(count, [sys.executable, "-c", program, str(tmp_path)])
        conductors.start()
        made.append(conductors)
        return conductors

    yield start
    for conductors in made:
        conductors.kill()
        conductors.wait()


def test_all_drain_when_the_service_ends(run: Callable[..., Conductors], tmp_path: Path) -> None:
    conductors = run(2, DRAINS)
    until(lambda: len(names(tmp_path, "started")) == 2)
    assert conductors.alive == 2
    conductors.drain()
    conductors.wait()
    assert conductors.alive == 0
    assert len(names(tmp_path, "drained")) == 2


def test_one_that_dies_is_started_again_and_said(
    run: Callable[..., Conductors], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conductors = run(1, DRAINS)
    until(lambda: len(names(tmp_path, "started")) == 1)
    os.kill(int(names(tmp_path, "started")[0].partition("-")[2]), signal.SIGKILL)
    until(lambda: len(names(tmp_path, "started")) == 2)
    assert "SIGKILL" in caplog.text
    assert conductors.alive == 1


def test_one_that_dies_again_and_again_is_started_ever_more_slowly(
    run: Callable[..., Conductors], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conductors = run(1, DIES)
    until(lambda: len(names(tmp_path, "started")) >= 3)
    delays = [place.delay_s for place in conductors._places]
    assert delays[0] >= 0.05 * 2**2
    assert "exit status 3" in caplog.text


def test_a_killed_service_leaves_none_behind(tmp_path: Path) -> None:
    service = f"""
import sys, time
from service.server.supervision import Conductors
Conductors(1, [sys.executable, "-c", {DRAINS!r}, {str(tmp_path)!r}]).start()
time.sleep({PATIENCE_S})
"""
    process = subprocess.Popen([sys.executable, "-c", service])
    until(lambda: len(names(tmp_path, "started")) == 1)
    process.kill()
    process.wait()
    until(lambda: len(names(tmp_path, "left")) == 1)
