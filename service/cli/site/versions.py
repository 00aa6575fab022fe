"""Sites of several versions side by side: a folder each, and one list that their headers show."""

from __future__ import annotations

import json
from pathlib import Path

from packaging.version import InvalidVersion, Version

LISTED = "versions.json"
"""Where Material's version switch looks, in the form of the tool ``mike``."""


def list_versions(root: Path) -> list[str]:
    """Writes the list of the sites below ``root``, and has ``index.html`` there lead to the newest;
    returns their numbers, newest first."""
    numbers = sorted(filter(None, map(_number, root.glob("*/index.html"))), reverse=True)
    names = [str(number) for number in numbers]
    (root / LISTED).write_text(
        json.dumps([{"version": name, "title": name, "aliases": []} for name in names], indent=1)
    )
    (root / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={names[0]}/index.html">'
        f'<title>hvxtune</title><a href="{names[0]}/index.html">hvxtune {names[0]}</a>\n'
    )
    return names


def _number(index: Path) -> Version | None:
    """The version that the folder of ``index`` is named after; ``None`` for any other folder."""
    try:
        number = Version(index.parent.name)
    except InvalidVersion:
        return None
    return number if str(number) == index.parent.name else None
