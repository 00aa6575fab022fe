"""The layout of a file of schedules, and its limits."""

from __future__ import annotations

from typing import Final

FORMAT: Final = "hvxtune-schedules"
VERSION: Final = 1
MANIFEST: Final = "hvxtune-schedules.json"
LINES: Final = "schedules.jsonl"
FILES: Final = "files/"
KINDS: Final = frozenset({"object", "header", "schedule", "loopnest", "assembly"})

MOST_SCHEDULES: Final = 50_000
"""In one file. zipfile keeps its list of members in memory, about 500 bytes each."""
MOST_MEMBERS: Final = MOST_SCHEDULES * len(KINDS) + 2
MOST_LINE_BYTES: Final = 1 << 20
MOST_FILE_BYTES: Final = 32 << 20
"""Of one file of an object, unpacked. Ours take about 100 kB."""
