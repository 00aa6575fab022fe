"""Keeps the conductor processes of a service running, and ends them cleanly."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIRST_DELAY_S = 1.0
LONGEST_DELAY_S = 60.0
_STEADY_S = 60.0
"""A process that dies after running this long is restarted without a growing delay."""
_LOOK_EVERY_S = 0.2

_log = logging.getLogger("hvxtune.service")


@dataclass
class _Place:
    """One conductor that should run."""

    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_at: float = 0.0
    delay_s: float = 0.0


class Conductors:
    """``count`` processes that run jobs; a thread restarts those that die.

    ``command`` and ``environment`` (added to this process's) are those of each.
    """

    def __init__(
        self, count: int, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._places = [_Place(delay_s=FIRST_DELAY_S) for _ in range(count)]
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="conductors", daemon=True)

    @property
    def alive(self) -> int:
        """The number now running."""
        return sum(1 for place in self._places if _runs(place.process))

    def start(self) -> None:
        """Starts all of them and the thread that watches them."""
        with self._lock:
            for place in self._places:
                self._start(place)
        self._watcher.start()

    def drain(self) -> None:
        """Asks all to finish the candidates in flight, release their jobs and end."""
        self._tell(signal.SIGTERM)

    def kill(self) -> None:
        """Kills all of them; other conductors take up their jobs."""
        self._tell(signal.SIGKILL)

    def wait(self) -> None:
        """Returns when all have ended. Only after :meth:`drain` or :meth:`kill`."""
        for place in self._places:
            if place.process is not None:
                place.process.wait()
                if place.process.stdin is not None:
                    place.process.stdin.close()

    def _tell(self, number: signal.Signals) -> None:
        self._ending.set()
        with self._lock:
            for place in self._places:
                if place.process is not None:
                    place.process.send_signal(number)  # a no-op once it was waited for

    def _start(self, place: _Place) -> None:
        place.started_at = time.monotonic()
        try:
            place.process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                env=self._environment,
                start_new_session=True,  # the service hands on Ctrl-C
            )
        except OSError as error:
            _log.error("a conductor cannot be started: %s", error)
            place.process = None
            self._again_later(place)

    def _watch(self) -> None:
        while not self._ending.wait(_LOOK_EVERY_S):
            with self._lock:
                if self._ending.is_set():
                    return
                for place in self._places:
                    self._look_after(place)

    def _look_after(self, place: _Place) -> None:
        process = place.process
        if _runs(process):
            return
        if process is not None:
            place.process = None
            if process.stdin is not None:
                process.stdin.close()
            self._again_later(place)
            _log.warning(
                "conductor %d ended (%s); another starts in %.0f s",
                process.pid,
                _how(process.returncode),
                max(0.0, place.start_at - time.monotonic()),
            )
        if time.monotonic() >= place.start_at:
            self._start(place)

    def _again_later(self, place: _Place) -> None:
        now = time.monotonic()
        if now - place.started_at > _STEADY_S:
            place.delay_s = FIRST_DELAY_S
        place.start_at = now + place.delay_s
        place.delay_s = min(LONGEST_DELAY_S, 2 * place.delay_s)


def _runs(process: subprocess.Popen[bytes] | None) -> bool:
    return process is not None and process.poll() is None


def _how(returncode: int) -> str:
    if returncode < 0:
        return signal.Signals(-returncode).name
    return f"exit status {returncode}"
