"""For all tests: Hypothesis fails none for being slow or unlucky, and none waits for the disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Without deadlines, nor a check of how long examples take to draw: a loaded machine is not a
# failure, and tests never assert wall time. Only `make nightly` has other examples each time.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _PATIENT, max_examples=50, derandomize=True)
settings.register_profile("thorough", _PATIENT, max_examples=500)
settings.load_profile("quick")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is flushed to the disk: no test cuts the power, and whatever else ends a process
    leaves what it has written in the system's memory. Only in this process; those that tests start
    write as users' do. Each commit would cost milliseconds otherwise, more beside other writers.
    """
    from db import engine

    with pytest.MonkeyPatch.context() as patches:
        set_up = engine._set_up_sqlite

        def quick(
            busy_timeout_s: float, connection: sqlite3.Connection, record: Any = None
        ) -> None:
            set_up(busy_timeout_s, connection, record)
            connection.execute("PRAGMA synchronous = OFF")

        quick.as_shipped = set_up  # type: ignore[attr-defined]
        patches.setattr(engine, "_set_up_sqlite", quick)
        patches.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databases are set up as they are for users."""
    from db import engine

    set_up = getattr(engine._set_up_sqlite, "as_shipped", engine._set_up_sqlite)
    monkeypatch.setattr(engine, "_set_up_sqlite", set_up)
