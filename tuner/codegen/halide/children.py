"""Waiting for a forked child that may crash or hang, on behalf of a client that may go away."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PATIENCE = 4
"""Of a compilation: it may take this many times its limit while other work keeps the processors
busy, so that the outcome of a candidate does not depend on what else the machine does."""
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_LEAST_WAIT_S = 0.05


def wait_for(
    pid: int, time_limit_s: float, client: int = 0, *, patience: int = 1
) -> tuple[str, int]:
    """How the child ended: ``("exit", status)``, ``("signal", number)`` or ``("timeout", 0)``.

    ``("signal", SIGKILL)`` means that another process killed it.

    Ends the child after ``time_limit_s`` of processor time, or ``patience`` times that by the
    clock. Ends it and this process when the client goes away, whose end of the descriptor
    ``client`` then closes.
    """
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(client, 0)  # only its hang-up
    deadline = time.monotonic() + time_limit_s
    last = time.monotonic() + patience * time_limit_s
    timed_out = False
    try:
        while True:
            remaining_ms = max(0, int((deadline - time.monotonic()) * 1000))
            events = poll.poll(remaining_ms)
            if any(fd == handle for fd, _ in events):
                break
            left_s = time_limit_s - _processor_s(pid)
            if not events and not timed_out and left_s > 0 and time.monotonic() < last:
                deadline = min(time.monotonic() + max(left_s, _LEAST_WAIT_S), last)
                continue
            os.kill(pid, signal.SIGKILL)
            if events:
                sys.exit(0)
            timed_out = True
            deadline += time_limit_s
    finally:
        os.close(handle)
    _, status, used = os.wait4(pid, 0)
    if timed_out:
        return "timeout", 0
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # The kernel's own limit of processor time ends it so, too.
        if number == signal.SIGKILL and used.ru_utime + used.ru_stime >= time_limit_s:
            return "timeout", 0
        return "signal", number
    return "exit", os.WEXITSTATUS(status)


def _processor_s(pid: int) -> float:
    """Seconds of processor time of process ``pid``, and of the children it has waited for."""
    with open(f"/proc/{pid}/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_S  # utime, stime, cutime, cstime
