"""Which of the jobs that wait goes next: by priority, and in turn among users.

First a user is chosen, then one of his jobs. A user's claim is the highest priority of his waiting
jobs, plus a point for every minute in which none of his was served: whoever asks for little
priority is not served first, and not never. Of users with equal claims goes first who got the
least service lately; so one user's thousand jobs do not stand before another's one. Of a user's
own jobs goes first the one with the highest priority, plus a point for each minute it has waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

AGEING_S = 60.0
"""Waiting so long is worth one point of priority, of which there are -100 to 100."""
WINDOW_S = 600.0
"""How long service is remembered."""


@dataclass(frozen=True)
class Waiting:
    """A job that could be taken up. ``waited_s`` sums the seconds in which nobody worked on it."""

    job_id: str
    user: str
    priority: int
    created_at: float
    waited_s: float


@dataclass(frozen=True)
class Service:
    """What a user got in the last :data:`WINDOW_S`: seconds of trials, and when one last ended."""

    trial_s: float = 0.0
    last_at: float | None = None


NO_SERVICE = Service()


def next_in_line(
    waiting: Iterable[Waiting], service: Mapping[str, Service], now: float
) -> Waiting | None:
    """The job to take up now; ``None`` if none waits."""
    by_user: dict[str, list[Waiting]] = {}
    for job in waiting:
        by_user.setdefault(job.user, []).append(job)
    if not by_user:
        return None

    def users_turn(user: str) -> tuple[int, float, float]:
        got = service.get(user, NO_SERVICE)
        claim = max(_points(job.priority, _unserved_s(job, got, now)) for job in by_user[user])
        return -claim, got.trial_s, min(job.created_at for job in by_user[user])

    def jobs_turn(job: Waiting) -> tuple[int, float, str]:
        return -_points(job.priority, job.waited_s), job.created_at, job.job_id

    return min(by_user[min(by_user, key=users_turn)], key=jobs_turn)


def _unserved_s(job: Waiting, got: Service, now: float) -> float:
    """Seconds since anything was done for the user of ``job``, and it waited."""
    if got.last_at is None:
        return job.waited_s
    return max(0.0, min(job.waited_s, now - got.last_at))


def _points(priority: int, waited_s: float) -> int:
    # Whole points: claims that differ by seconds are equal, and service decides.
    return priority + int(waited_s / AGEING_S)
