"""How long a child may take: by the processor, and by the clock where others keep it from one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from tuner.codegen.halide.children import wait_for


def child(act: Callable[[], object]) -> int:
    """Forks a process that does ``act`` and ends with status 3."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(3)
    return pid


@pytest.fixture
def client():
    """A descriptor whose other end stays open."""
    ours, theirs = os.pipe()
    yield ours
    os.close(ours)
    os.close(theirs)


def spin() -> None:
    while True:
        pass


def test_a_child_that_works_too_long_is_ended(client: int) -> None:
    begun = time.monotonic()
    assert wait_for(child(spin), 0.3, client, patience=1000) == ("timeout", 0)
    assert time.monotonic() - begun >= 0.3


def test_a_child_that_is_kept_waiting_has_its_time(client: int) -> None:
    assert wait_for(child(lambda: time.sleep(0.5)), 0.1, client, patience=1000) == ("exit", 3)


def test_a_child_that_only_waits_is_ended_at_last(client: int) -> None:
    begun = time.monotonic()
    assert wait_for(child(lambda: time.sleep(600)), 0.1, client, patience=4) == ("timeout", 0)
    assert time.monotonic() - begun >= 0.4
