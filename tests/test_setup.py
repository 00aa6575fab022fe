"""Set-up: what is pinned is what `pyproject.toml` asks for, and old machines are told why not."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {name: (ROOT / ".ci" / "lock" / f"{name}.txt").read_text() for name in ("runtime", "dev")}


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", LOCKS[lock], re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_is_pinned_and_hashed(lock):
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", LOCKS[lock], flags=re.MULTILINE))
    assert len(entries) > 20
    assert [e for e in entries if not re.match(r"[\w.-]+==\S+ ;.*\\\n +--hash=sha256:", e)] == []


@pytest.mark.parametrize("lock", LOCKS)
def test_the_locks_name_no_index(lock):
    assert "://" not in LOCKS[lock]
    assert "--index" not in LOCKS[lock]


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("runtime", PROJECT["project"]["dependencies"]),
        ("dev", PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["dev"]),
    ],
)
def test_the_lock_has_what_the_project_asks_for(lock, wanted):
    pinned = pins(lock)
    for requirement in map(Requirement, wanted):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement} is not locked: run `make lock`"
        assert requirement.specifier.contains(version), f"{requirement} is locked to {version}"


def test_both_locks_agree():
    runtime, dev = pins("runtime"), pins("dev")
    assert {name: dev.get(name) for name in runtime} == runtime


@pytest.mark.parametrize(
    ("version", "machine", "said"),
    [
        ((3, 10), "x86_64", "Python 3.10 found. accepted: 3.11 to 3.13"),
        ((3, 14), "x86_64", "Python 3.14 found. accepted: 3.11 to 3.13"),
        ((3, 12), "aarch64", "Linux aarch64 found. accepted: Linux x86_64"),
        ((3, 12), "x86_64", ""),
    ],
)
def test_a_machine_that_cannot_work_is_told_why(monkeypatch, version, machine, said):
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr("platform.machine", lambda: machine)
    complaint = runpy.run_path(str(ROOT / ".ci" / "check_machine.py"))["complaint"]()
    assert complaint.startswith(said)
    assert bool(complaint) == bool(said)


def test_make_lists_its_targets():
    listed = subprocess.run(
        ["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    for target in ("setup", "demo", "test", "test-fast", "lint", "lock", "clean"):
        assert re.search(rf"^{target} ", listed, re.MULTILINE)
