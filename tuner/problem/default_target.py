"""The target that is meant where none is named: in commands, REST and Python alike."""

from __future__ import annotations

import os

from tuner.errors import StoreError
from tuner.paths import cache_dir, cached
from tuner.problem.target import BASELINE_TARGET, TARGETS, Target

TARGET_VARIABLE = "HVXTUNE_TARGET"
_CHOSEN = "default-target"
"""The file in the cache that names what was set up, beside the simulator that runs it."""


def default_target() -> str:
    """The name in ``HVXTUNE_TARGET``, else the target that ``hvxtune setup --target`` saw to last,
    else :data:`BASELINE_TARGET`.

    The name in the environment may be unknown: :func:`tuner.problem.target.find_target` says so.
    """
    given = os.environ.get(TARGET_VARIABLE)
    if given:
        return given
    try:
        chosen = (cache_dir() / _CHOSEN).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return BASELINE_TARGET
    return chosen if chosen in TARGETS else BASELINE_TARGET


def choose_default_target(target: Target) -> None:
    """Makes ``target`` the default of processes that begin from now on.

    Raises ``StoreError`` if the cache cannot be written to.
    """
    from tuner.machine.whole_files import write_whole

    place = cached("") / _CHOSEN
    try:
        write_whole(place, f"{target.name}\n".encode())
    except OSError as error:
        raise StoreError(
            f"cannot write {place}: {error.strerror}",
            next_step="free space or permissions there",
        ) from None


DEFAULT_TARGET = default_target()
"""The default of this process, from its start to its end."""
