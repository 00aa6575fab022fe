"""Errors that say who must act.

Every error carries one line a person can act on: the wrong value, what is accepted, the next step.
Over HTTP and in ``--json`` output the same parts are separate fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.records.outcome import Outcome


class HvxtuneError(Exception):
    """Base of all errors raised on purpose.

    ``message`` names the value and what is wrong with it, ``accepted`` the valid values, and
    ``next_step`` a command to run or a thing to change. ``str()`` joins them into one line.
    """

    kind = "error"

    def __init__(self, message: str, *, accepted: str = "", next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.accepted = accepted
        self.next_step = next_step

    def __str__(self) -> str:
        parts = [self.message.rstrip(".")]
        if self.accepted:
            parts.append(f"accepted: {self.accepted.rstrip('.')}")
        if self.next_step:
            parts.append(self.next_step.rstrip("."))
        line = ". ".join(parts)
        return line if line.endswith("?") else line + "."

    def as_dict(self) -> dict[str, str]:
        """The error as the JSON object that ``--json`` and the REST interface show."""
        return {
            "kind": self.kind,
            "message": self.message,
            "accepted": self.accepted,
            "next_step": self.next_step,
        }


class UserError(HvxtuneError):
    """The request is wrong; the person who made it must change it."""

    kind = "user"


class NotStoredError(UserError):
    """Nothing is stored under the name or for the question that was asked: no such job, schedule,
    token or device. The request is sound; what it asks for must come to be first."""


class ToolchainError(HvxtuneError):
    """The installation is broken; the operator of this machine must repair it."""

    kind = "toolchain"


class StoreError(HvxtuneError):
    """The database or the artifact directory cannot be used (full, locked, read-only, corrupt).

    The operator of this machine must act. Earlier commits are unaffected.
    """

    kind = "store"


class DeviceError(HvxtuneError):
    """A measuring device failed, not the candidate: retried elsewhere, then quarantined.

    ``attempts`` is the number of tries it counts for: a failure that was already retried is retried
    less often. 0 excuses the device: the fault is not its own, or it is only warm.
    """

    kind = "device"

    def __init__(
        self, message: str, *, accepted: str = "", next_step: str = "", attempts: int = 1
    ) -> None:
        super().__init__(message, accepted=accepted, next_step=next_step)
        self.attempts = attempts


class OutOfTimeError(HvxtuneError):
    """The result is no longer wanted; says nothing about candidate or device."""

    kind = "time"


class ComeBackLaterError(HvxtuneError):
    """Too many requests at once, by one user (``of_user``) or by all together; try again in
    ``wait_s``."""

    kind = "busy"

    def __init__(self, message: str, *, wait_s: float = 5.0, of_user: bool = False) -> None:
        super().__init__(message, next_step=f"come back in {wait_s:.0f} s")
        self.wait_s = wait_s
        self.of_user = of_user


class InternalError(HvxtuneError):
    """A fault of hvxtune itself; please report it."""

    kind = "internal"


class CandidateError(HvxtuneError):
    """This candidate is bad. Becomes the outcome of its trial and never stops a job."""

    kind = "candidate"

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.args = (outcome, message)  # what a copy in another process is made from
        self.outcome = outcome
