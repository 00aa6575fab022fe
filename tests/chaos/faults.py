"""What breaks, where, when and for how long: by a seed alone, so that a bad run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = {
    "kill": "all its processes end at once",
    "freeze": "all its processes stop, and go on later",
    "partition": "its packets vanish",
    "full disk": "no byte can be written there",
    "clock": "its time of day is wrong",
}
"""The faults of a host. A killed one is started again when the fault ends."""
_NEVER = {
    ("clock", "database"),  # by its clock the rest is judged
    ("full disk", "scheduler"),  # it writes nothing
}
_LONGEST_SKEW_S = 90.0


@dataclass(frozen=True)
class Fault:
    """``kind`` at ``host`` from ``at_s`` on, for ``for_s`` (seconds since the jobs were
    submitted). ``amount`` is the seconds by which a clock is ahead."""

    at_s: float
    kind: str
    host: str
    for_s: float
    amount: float = 0.0

    @property
    def until_s(self) -> float:
        """When it ends."""
        return self.at_s + self.for_s

    def __str__(self) -> str:
        by = f" {self.amount:+.0f} s" if self.kind == "clock" else ""
        return f"{self.at_s:5.1f} s {self.kind}{by} {self.host} for {self.for_s:.1f} s"


def plan(
    seed: int, hosts: Sequence[str], *, count: int, within_s: float, lease_s: float
) -> list[Fault]:
    """``count`` faults that begin within ``within_s``; some shorter than a lease, some longer. One
    host has one fault at a time."""
    choose = random.Random(seed)
    found: list[Fault] = []
    busy_until = dict.fromkeys(hosts, 0.0)
    for at_s in sorted(choose.uniform(1.0, within_s) for _ in range(count)):
        free = [host for host in hosts if busy_until[host] <= at_s]
        if not free:
            continue
        host = choose.choice(free)
        role = host.rstrip("0123456789")
        kind = choose.choice([one for one in KINDS if (one, role) not in _NEVER])
        for_s = choose.uniform(0.1, 1.8) * lease_s
        amount = choose.uniform(-_LONGEST_SKEW_S, _LONGEST_SKEW_S) if kind == "clock" else 0.0
        found.append(Fault(at_s, kind, host, for_s, amount))
        busy_until[host] = at_s + for_s + 1.0
    return found
