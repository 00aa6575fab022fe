"""The target that a machine is set up for, kept beside the simulator that runs it."""

from __future__ import annotations

from tuner.errors import StoreError
from tuner.machine.whole_files import write_whole
from tuner.paths import cached
from tuner.problem.default_target import CHOSEN
from tuner.problem.target import Target


def choose_default_target(target: Target) -> None:
    """Makes ``target`` the default of processes that begin from now on.

    Raises ``StoreError`` if the cache cannot be written to.
    """
    place = cached("") / CHOSEN
    try:
        write_whole(place, f"{target.name}\n".encode())
    except OSError as error:
        raise StoreError(
            f"cannot write {place}: {error.strerror}",
            next_step="free space or permissions there",
        ) from None
