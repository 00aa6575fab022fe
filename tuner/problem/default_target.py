"""The target that is meant where none is named: in commands, REST and Python alike."""

from __future__ import annotations

import os
from contextlib import suppress

from tuner.errors import UserError
from tuner.paths import cache_dir
from tuner.problem.target import BASELINE_TARGET, TARGETS, find_target

TARGET_VARIABLE = "HVXTUNE_TARGET"
CHOSEN = "default-target"
"""The file in the cache that names what was set up (:mod:`tuner.machine.chosen_target`)."""


def named_target() -> str | None:
    """The name in ``HVXTUNE_TARGET``, which may be unknown; ``None`` without one."""
    return os.environ.get(TARGET_VARIABLE) or None


def default_target() -> str:
    """The name in ``HVXTUNE_TARGET``, else the target that ``hvxtune setup --target`` saw to last,
    else :data:`BASELINE_TARGET`.

    The name in the environment may be unknown: :func:`tuner.problem.target.find_target` says so.
    """
    named = named_target()
    if named is not None:
        with suppress(UserError):
            return find_target(named).name
        return named
    try:
        chosen = (cache_dir() / CHOSEN).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return BASELINE_TARGET
    return chosen if chosen in TARGETS else BASELINE_TARGET


DEFAULT_TARGET = default_target()
"""The default of this process, from its start to its end."""
