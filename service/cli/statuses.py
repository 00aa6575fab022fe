"""The exit statuses of ``hvxtune``: the only place where their numbers are written."""

from __future__ import annotations

from enum import IntEnum

from tuner.errors import (
    DeviceError,
    HvxtuneError,
    NotStoredError,
    StoreError,
    ToolchainError,
    UserError,
)


class Exit(IntEnum):
    """An exit status; ``meaning`` is its row of the table in docs/cli.md."""

    meaning: str

    def __new__(cls, status: int, meaning: str) -> Exit:
        made = int.__new__(cls, status)
        made._value_ = status
        made.meaning = meaning
        return made

    DONE = 0, "done"
    FAILED = 1, "it ran and failed: no valid trial, a check not passed, a fault of hvxtune"
    USAGE = 2, "the request must change: an unknown option or kernel, a shape out of range"
    NOT_STORED = (
        3,
        "nothing stored under that name: no such schedule, job, token or device",
    )
    MISSING = 4, "this machine lacks a tool or device, or it does not work; `hvxtune doctor` tells"
    UNREACHABLE = 5, "the database cannot be used, or no service answers"
    INTERRUPTED = 130, "stopped by Ctrl-C; a job can be resumed"


def status_of(error: HvxtuneError) -> Exit:
    """The status of a command that ended with ``error``."""
    kinds: tuple[tuple[type[HvxtuneError], Exit], ...] = (
        (NotStoredError, Exit.NOT_STORED),
        (UserError, Exit.USAGE),
        (ToolchainError, Exit.MISSING),
        (DeviceError, Exit.MISSING),
        (StoreError, Exit.UNREACHABLE),
    )
    return next((status for kind, status in kinds if isinstance(error, kind)), Exit.FAILED)
