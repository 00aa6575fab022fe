"""Code of others that browsers load: exactly what vendor.json names, with its licences."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

import dashboards

FOLDER = Path(dashboards.__file__).parent / "static" / "vendor"
PACKAGES = json.loads((FOLDER / "vendor.json").read_text())["packages"]
FILES = {name: file for entry in PACKAGES.values() for name, file in entry["files"].items()}


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_is_what_its_digest_says(name: str) -> None:
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == FILES[name]["sha256"]


def test_nothing_else_lies_there() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {*FILES, "vendor.json"}


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_every_package_has_its_licence_and_version(package: str) -> None:
    entry = PACKAGES[package]
    assert entry["version"]
    assert entry["license"]
    assert any("LICENSE" in name for name in entry["files"])
