"""Waiting for a forked child that may crash or hang, on behalf of a client that may go away."""

from __future__ import annotations

import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def wait_for(pid: int, time_limit_s: float, client: int = 0) -> tuple[str, int]:
    """How the child ended: ``("exit", status)``, ``("signal", number)`` or ``("timeout", 0)``.

    Ends the child after ``time_limit_s``; ends it and this process when the client goes away,
    whose end of the descriptor ``client`` then closes.
    """
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.register(client, 0)  # only its hang-up
    deadline = time.monotonic() + time_limit_s
    timed_out = False
    try:
        while True:
            remaining_ms = max(0, int((deadline - time.monotonic()) * 1000))
            events = poll.poll(remaining_ms)
            if any(fd == handle for fd, _ in events):
                break
            os.kill(pid, signal.SIGKILL)
            if events:
                sys.exit(0)
            timed_out = True
            deadline += time_limit_s
    finally:
        os.close(handle)
    _, status = os.waitpid(pid, 0)
    if timed_out:
        return "timeout", 0
    if os.WIFSIGNALED(status):
        return "signal", os.WTERMSIG(status)
    return "exit", os.WEXITSTATUS(status)
