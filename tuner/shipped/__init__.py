"""The files that come with hvxtune beside its code: CMake modules, documentation, examples.

The folders here are links to those of the repository; a wheel has what they lead to.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

FOLDERS = ("cmake", "docs", "examples")
_MENTIONED = re.compile(rf"(?<![\w./-])(?:{'|'.join(FOLDERS)})/[\w./-]*\w")


def shipped(folder: str) -> Path:
    """Where one of :data:`FOLDERS` is on this machine."""
    from importlib import resources

    return Path(str(resources.files(__name__) / folder)).resolve()


def with_places(text: str) -> str:
    """``text``, in which files such as ``docs/devices.md`` have the path that leads to them from
    the working directory. Other words stay, also those that look alike but are not shipped."""
    return _MENTIONED.sub(lambda found: _place(found[0]), text)


def _place(name: str) -> str:
    folder, _, rest = name.partition("/")
    place = shipped(folder) / rest
    if os.path.exists(name) or not place.exists():
        return name
    return str(place)
