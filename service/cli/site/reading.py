"""How long the pages take to read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from pathlib import Path

WORDS_A_MINUTE = 200
"""Of a page that is studied rather than skimmed."""

_BLOCK = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


def word_counts(docs: Path) -> Mapping[str, int]:
    """Words of the README beside ``docs``, where there is one, and of each page, longest first.

    Code blocks do not count.
    """
    pages = [path for path in (docs.parent / "README.md", *docs.glob("*.md")) if path.exists()]
    counts = {path.name: len(_BLOCK.sub("", path.read_text()).split()) for path in pages}
    return dict(sorted(counts.items(), key=lambda each: -each[1]))


def minutes(words: int) -> int:
    """Of reading, rounded up."""
    return ceil(words / WORDS_A_MINUTE)
