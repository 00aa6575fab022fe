"""``make demo``: through a service from its start to the best schedule, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tuner.conformance.patience import PATIENCE_S, until

_SMALL = ("gemm_u8", "-p", "m=32", "-p", "n=128", "-p", "k=32", "--contract", "static")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    state = tmp_path / "state"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "service.demo", "4", *_SMALL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**kept, "HVXTUNE_STATE_DIR": str(state)},
        start_new_session=True,
    )
    yield process
    process.kill()
    process.communicate()
    until(lambda: left_behind(state) == [])


def left_behind(state: Path) -> list[str]:
    """What still runs with this state directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HVXTUNE_STATE_DIR") == str(state):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


@pytest.mark.path("the service")
@pytest.mark.slow
def test_it_shows_what_was_found_where_it_is_and_what_comes_next(
    demo: subprocess.Popen[str],
) -> None:
    out, err = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 0, err
    assert re.search(r"service on http://127\.0\.0\.1:\d+ ", out)
    assert re.search(r"stored in\s+\S+\.sqlite", out)
    for row in ("default schedule", "textbook HVX", "best found"):
        assert re.search(rf"{row} +[\d,]+( \([\dkM.,to ]+\))? +[\d,]+ +[\d.]+%", out)
    assert "4/4 trials" in err
    assert "hvxtune serve" in out
    assert out.count("$ hvxtune") == 2


@pytest.mark.slow
def test_stopped_it_takes_the_service_along(demo: subprocess.Popen[str]) -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("$ hvxtune tune"):
            break
    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does
    demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == 130
