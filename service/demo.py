"""``make demo``: one kernel from a service's start to its best schedule, by the commands that
anybody would type; each is shown before it runs.

The job, its trials and the schedule stay in the database. The service ends with the demo.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from service.cli.statuses import Exit
from service.cli.summary import print_result
from service.here import Here
from service.settings import Settings
from tuner.paths import writable

PROBLEM = ("gemm_u8", "-p", "m=256", "-p", "n=256", "-p", "k=256", "--contract", "static")
TRIALS = "100"
END_LIMIT_S = 60.0
_SCRIPT = Path(sys.executable).with_name("hvxtune")
_HVXTUNE = [str(_SCRIPT)] if _SCRIPT.exists() else [sys.executable, "-m", "service.cli"]


class _Commands:
    """Runs commands one after the other; Ctrl-C reaches the one that runs, once, and no more
    follow."""

    def __init__(self) -> None:
        self._running: subprocess.Popen[str] | None = None
        self._interrupted = False
        signal.signal(signal.SIGINT, self._interrupt)

    def run(self, *arguments: str, then: Callable[[str], None] | None = None) -> int:
        """Shows a command and runs it; ``then`` gets what it prints with ``--json``. The exit
        status, as shells report it."""
        _say(f"\n$ hvxtune {shlex.join(arguments)}")
        # In a session of its own, so that a terminal's Ctrl-C comes from here alone.
        self._running = subprocess.Popen(
            [*_HVXTUNE, *arguments, *(["--json"] if then else [])],
            stdout=subprocess.PIPE if then else None,
            text=True,
            start_new_session=True,
        )
        if self._interrupted:  # it came while the process started
            self._running.send_signal(signal.SIGINT)
        try:
            out, _ = self._running.communicate()
        finally:
            self._running.kill()
            self._running.wait()
        if then and out:
            then(out)
        if self._interrupted:
            return Exit.INTERRUPTED
        status = self._running.returncode
        return status if status >= 0 else 128 - status

    def _interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self._interrupted = True
        if self._running is not None:
            self._running.send_signal(signal.SIGINT)


def main() -> int:
    """Runs the demo; the exit status of the first command that fails, else 0."""
    trials, problem = "".join(sys.argv[1:2]) or TRIALS, sys.argv[2:] or PROBLEM
    sys.argv[0] = _HVXTUNE[0]  # what results tell the reader to type
    commands = _Commands()
    # To be terminated must not leave the service behind.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    log = writable("") / "demo.log"
    with _service(log) as about:
        if about is None:
            sys.stderr.write(f"the service did not start:\n{log.read_text()}")
            return 1
        _say(f"service on {about['url']} (pages: {about['url']}/ui), log {log}")
        where = ("--server", about["url"])

        def show(result: str) -> None:
            # As for a job in the database: the service that ran it ends with the demo.
            with Here() as here:
                print_result({**json.loads(result), "stored_in": about["database"]}, here)

        status = commands.run("tune", *problem, "--trials", trials, *where, then=show)
        status = status or commands.run("best", *problem, *where)
    if status == 0:
        _say("\nThe service has ended; what it found is kept. `hvxtune serve` starts it again, on")
        _say(f"{Settings().url}, for jobs and builds: docs/service.md")
    elif status == Exit.INTERRUPTED:
        _say("The service has ended, too; with the next `hvxtune serve` the job goes on.")
    return status


@contextmanager
def _service(log: Path) -> Iterator[Mapping[str, Any] | None]:
    """A service on a free port, and what it said at its start; ``None`` if it did not start."""
    command = ["serve", "--port", "0", "--json"]
    with log.open("w") as errors:
        # A session of its own: at Ctrl-C it must outlive the command that talks to it.
        service = subprocess.Popen(
            [*_HVXTUNE, *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    assert service.stdout is not None  # noqa: S101
    try:
        line = service.stdout.readline()
        yield json.loads(line) if line else None
    finally:
        service.terminate()
        try:
            service.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()
        service.stdout.close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
