"""Which sources packages are fetched from, over a stand-in for apt."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from tuner.machine.debian import PrivateApt

MIRROR = "https://mirror.invalid/debian"
ROWS = [
    f"{MIRROR} trixie main Debian",
    f"{MIRROR} trixie-updates main Debian",
    f"{MIRROR}-security trixie-security main Debian",
    "https://vendor.invalid/apt trixie main Vendor",
    f"{MIRROR} sid main Debian",
]


@pytest.fixture(params=["trixie"])
def apt(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> PrivateApt:
    """On a machine that runs a release of Debian's."""
    for name in ("apt-get", "dpkg-deb"):
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nprint({chr(10).join(ROWS)!r})\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    system = {"ID": "debian", "VERSION_CODENAME": request.param}
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: system)
    monkeypatch.setattr(Path, "exists", lambda path: False)  # no keyring to name
    return PrivateApt(tmp_path / "private")


def test_another_release_comes_from_the_machines_own_mirror(apt: PrivateApt) -> None:
    assert apt.sources_of_release("bookworm") == [
        f"deb {MIRROR} bookworm main",
        f"deb {MIRROR} bookworm-updates main",
        f"deb {MIRROR}-security bookworm-security main",
    ]


def test_the_machines_release_needs_no_other_sources_but_for_backports(apt: PrivateApt) -> None:
    assert apt.sources_of_release("trixie") == []
    assert apt.sources_of_release("trixie", with_backports=True) == [
        f"deb {MIRROR} trixie main",
        f"deb {MIRROR} trixie-backports main",
        f"deb {MIRROR} trixie-updates main",
        f"deb {MIRROR}-security trixie-security main",
    ]
