"""The commands that bring back a part that is missing, from a wheel and from a checkout alike."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import requires

SET_UP = "run `hvxtune setup`"
"""Where the simulator is missing."""


def reinstall(package: str) -> str:
    """Where ``package``, which hvxtune requires, is missing or broken: to install it again in this
    environment, in a version that serves."""
    requirement = next(
        (
            each.partition(";")[0].strip()
            for each in requires("hvxtune") or ()
            if re.match(rf"{re.escape(package)}\b", each)
        ),
        package,
    )
    words = [sys.executable, "-m", "pip", "install", "--force-reinstall", "--no-deps", requirement]
    return f"run `{shlex.join(words)}`"
