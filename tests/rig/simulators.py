"""The simulators of this machine for a test's own state directory."""

from __future__ import annotations

from pathlib import Path

from tuner.paths import cache_dir, state_dir


def link_simulators(state: Path) -> None:
    """Lets a program whose state directory is ``state`` find them, without fetching any."""
    place = state / "cache" / "qemu"
    for home in (cache_dir(), state_dir()):  # before the environment names another
        for folder in (home / "qemu").glob("[!.]*/"):
            if not (place / folder.name).exists():
                place.mkdir(parents=True, exist_ok=True)
                (place / folder.name).symlink_to(folder)
