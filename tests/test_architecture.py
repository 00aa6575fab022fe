"""The house holds: imports point one way, nothing of one machine gets in."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("tuner", "db", "service", "dashboards")
"""From the ground up: a room may import from itself and those before it."""
TUNER_ROOMS = ("space", "kernels", "codegen", "uploaded", "measure", "search")
"""The same for the rooms of ``tuner``. Types alone may be named the other way round, too."""


def tracked_files() -> list[Path]:
    """What git tracks or would track here: not what builds and test runs left behind."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


FILES = tracked_files()
SOURCES = [path for path in FILES if path.suffix in {".py", ".c", ".h", ".S", ".js", ".css"}]


def imported_rooms(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names} & set(ROOMS)


def test_there_is_code_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} >= {*ROOMS, "tests"}


@pytest.mark.parametrize("room", ROOMS)
def test_imports_point_one_way(room: str) -> None:
    allowed = set(ROOMS[: ROOMS.index(room) + 1])
    wrong = {
        str(path.relative_to(ROOT)): sorted(imported_rooms(path) - allowed)
        for path in SOURCES
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] == room
    }
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def tuner_rooms_used(path: Path) -> set[str]:
    """The rooms of ``tuner`` that a file imports when it runs."""
    tree = ast.parse(path.read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("tuner.")} & set(TUNER_ROOMS)


@pytest.mark.parametrize("room", TUNER_ROOMS)
def test_the_rooms_of_the_tuner_know_each_other_one_way(room: str) -> None:
    allowed = set(TUNER_ROOMS[: TUNER_ROOMS.index(room) + 1])
    paths = [p for p in SOURCES if p.suffix == ".py" and p.is_relative_to(ROOT / "tuner" / room)]
    assert paths
    wrong = {str(p.relative_to(ROOT)): sorted(tuner_rooms_used(p) - allowed) for p in paths}
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_relative_imports_are_not_used() -> None:
    """They would hide from the check above."""
    relative = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.suffix == ".py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level > 0
    ]
    assert relative == []


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    """Packages come by name through the user's own configured clients, from wherever that is."""
    hosts = [("pypi", "org"), ("pythonhosted", "org"), ("deb.debian", "org"), ("npmjs", "org")]
    folders = [("", "work", "main"), ("", "work", "shared"), ("", "root", ""), ("", "tmp", "x", "")]
    banned = re.compile(
        "|".join(
            [
                *(re.escape(".".join(host)) for host in hosts),
                *(r"(?<![\w.])" + re.escape("/".join(folder)) for folder in folders),
            ]
        )
    )
    found = {
        str(path.relative_to(ROOT)): hit.group()
        for path in FILES
        if (hit := banned.search(path.read_text(errors="ignore")))
    }
    assert found == {}
