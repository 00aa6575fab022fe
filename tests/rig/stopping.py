"""A process that works on a database is held at what it does, while others use the database."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil

from tuner.conformance.patience import until


def stop_between_writes(process: subprocess.Popen[Any], database: Path) -> None:
    """Stops ``process`` (SIGCONT lets it go on), not while it keeps other writers out."""

    def stopped() -> bool:
        process.send_signal(signal.SIGSTOP)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        with closing(sqlite3.connect(database, timeout=0.0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.send_signal(signal.SIGCONT)
                return False
        return True

    until(stopped)
