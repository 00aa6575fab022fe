"""Who holds a job: a process on a machine, and whether it is still alive."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from functools import lru_cache

_SAME_START_S = 2.0
"""Start times of one process may differ by this much between looks: the system derives them
from the time of boot, which moves when the clock is set."""


@dataclass(frozen=True)
class Owner:
    """One process. ``started_at`` (Unix time) tells it from a later one with the same ``pid``."""

    host: str
    pid: int
    started_at: float

    @property
    def label(self) -> str:
        """For people: ``process 1234`` or ``process 1234 on lab7``."""
        if self.host == this_host():
            return f"process {self.pid}"
        return f"process {self.pid} on {self.host.partition('/')[0]}"

    @property
    def is_this_process(self) -> bool:
        """Whether it is the process that asks."""
        return (self.host, self.pid) == (this_host(), os.getpid()) and self.is_alive is True

    @property
    def is_alive(self) -> bool | None:
        """Whether the process still runs; ``None`` if it is on another machine."""
        if self.host != this_host():
            return None
        import psutil

        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) <= _SAME_START_S
            return bool(same and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.AccessDenied:
            return True  # somebody's process has that number; better wait than run a job twice
        except psutil.NoSuchProcess:
            return False


def this_process() -> Owner:
    """The process that asks."""
    import psutil

    return Owner(this_host(), os.getpid(), psutil.Process().create_time())


@lru_cache(maxsize=1)
def this_host() -> str:
    """Names the set of processes whose numbers mean something here: the machine and, where
    there are such, the namespace of process numbers (containers may share a host name)."""
    try:
        namespace = os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{namespace}"
