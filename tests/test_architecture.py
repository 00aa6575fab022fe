"""The house holds: every arrow between rooms points down, modules import one another in no circle,
nothing of one machine gets in.

An arrow is whatever makes one module load another as the program runs: imports anywhere in a file,
late ones too, ``import_module``, and strings that name a module of ours, as registries, ``python
-m`` and preloaded lists do. What is imported for types alone makes no arrow, but may not close a
circle of modules either.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("tuner", "db", "service", "dashboards")
"""From the ground up: a room may import from itself and those before it."""
DIRECTION = (
    "tuner.errors",
    "tuner.program",
    "tuner.problem",
    "tuner.space",
    "tuner.records",
    "tuner.kernels",
    "tuner.codegen",
    "tuner.uploaded",
    "tuner.measure",
    "tuner.executor",
    "tuner.keeping",
    "tuner.search",
    "tuner.jobs",
    "tuner",
)
"""The same for units of ``tuner``, its rooms and root modules. Others stand wherever they make no
circle. The last, ``tuner/__init__.py``, puts the house together: it may name all, and no room of
``tuner`` names it."""
Arrows = dict[str, dict[str, list[str]]]
"""Unit to the units it loads, each with the places in the source that do."""


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
NAMES_A_MODULE = re.compile(rf"({'|'.join(ROOMS)})(\.\w+)+\.?(:\w+)?")


def module_of(path: Path) -> str:
    """The dotted name of the module in ``path``."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_of(path): path
    for path in SOURCES
    if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ROOMS
}


def unit_of(module: str) -> str:
    """The room or root module that ``module`` belongs to."""
    return ".".join(module.split(".")[:2])


class Load(NamedTuple):
    """A name that a module is loaded by, in a line. ``how`` says whether an import does that, one
    for types alone, or a string."""

    name: str
    line: int
    how: Literal["import", "types", "string"]


def loads_in(source: str) -> Iterator[Load]:
    """All in ``source``."""
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        how: Literal["import", "types"] = "types" if id(node) in for_types else "import"
        if isinstance(node, ast.Import):
            yield from (Load(alias.name, node.lineno, how) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (Load(name, node.lineno, how) for name in names)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and NAMES_A_MODULE.fullmatch(node.value)
        ):
            # The beginning of an f-string, too: import_module(f"tuner.room.{name}").
            yield Load(node.value.partition(":")[0].rstrip("."), node.lineno, "string")


def known_module(name: str) -> str:
    """The module of ours that ``name``, of a module or something in one, loads; else nothing."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def arrows() -> tuple[Arrows, Arrows]:
    """All arrows between units as the program runs, and all imports between modules."""
    units: Arrows = defaultdict(lambda: defaultdict(list))
    modules: Arrows = defaultdict(lambda: defaultdict(list))
    for module, path in MODULES.items():
        for name, line, how in loads_in(path.read_text()):
            loaded = known_module(name)
            place = f"{path.relative_to(ROOT)}:{line}"
            if loaded not in ("", module) and how != "string":
                modules[module][loaded].append(place)
            if how != "types" and unit_of(loaded) not in ("", unit_of(module)):
                units[unit_of(module)][unit_of(loaded)].append(place)
    return units, modules


def above(start: str, found: Mapping[str, Mapping[str, object]]) -> set[str]:
    """The units that ``start`` reaches."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        for target in found.get(waiting.pop(), {}):
            if target not in reached:
                reached.add(target)
                waiting.append(target)
    return reached


def in_circles(found: Mapping[str, Mapping[str, list[str]]]) -> dict[tuple[str, str], list[str]]:
    """The arrows between units that reach each other."""
    reach = {unit: above(unit, found) for unit in found}
    return {
        (unit, target): places
        for unit, targets in found.items()
        for target, places in targets.items()
        if unit in reach.get(target, ())
    }


def shown(found: Mapping[tuple[str, str], list[str]]) -> str:
    """An arrow a line: those with the fewest places, which are the likeliest to be wrong, first."""
    return "\n".join(
        f"{unit} -> {target}: {', '.join(places[:4])}"
        for (unit, target), places in sorted(found.items(), key=lambda one: (len(one[1]), one))
    )


def test_there_is_code_to_check() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in SOURCES} >= {*ROOMS, "tests"}
    assert {unit_of(module) for module in MODULES} >= set(DIRECTION)


@pytest.mark.parametrize(
    "source",
    [
        "import tuner.search",
        "from tuner import search",
        "def late():\n    from tuner.search.loop import search",
        "from importlib import import_module\nimport_module('tuner.search')",
        "PLACES = {'random': 'tuner.search.samplers.random:Random'}",
        "import_module(f'tuner.search.{name}')",
        "if TYPE_CHECKING:\n    import halide\nelse:\n    import tuner.search",
    ],
)
def test_each_way_to_load_a_module_is_seen(source: str) -> None:
    found = {unit_of(known_module(one.name)) for one in loads_in(source) if one.how != "types"}
    assert "tuner.search" in found


def test_what_is_for_types_alone_is_told_apart() -> None:
    source = "if TYPE_CHECKING:\n    from tuner.search import search\n"
    assert [one.how for one in loads_in(source)] == ["types"]


def test_a_circle_is_found() -> None:
    found = {"a": {"b": ["a.py:1"]}, "b": {"c": ["b.py:1"]}, "c": {"a": ["c.py:1"]}, "d": {"a": []}}
    assert set(in_circles(found)) == {("a", "b"), ("b", "c"), ("c", "a")}


def test_arrows_point_down_and_run_in_no_circle() -> None:
    """Between rooms, between units of the tuner that :data:`DIRECTION` names, and between all
    others; and between modules, imports for types included. In one test: to parse all of the house
    takes seconds."""
    units, modules = arrows()
    every = {
        (unit, target): places
        for unit, targets in units.items()
        for target, places in targets.items()
    }

    def climbs(pair: tuple[str, str], floors: Sequence[str]) -> bool:
        unit, target = pair
        return unit in floors and target in floors and floors.index(target) > floors.index(unit)

    up = {
        pair: places
        for pair, places in every.items()
        if climbs((pair[0].partition(".")[0], pair[1].partition(".")[0]), ROOMS)
        or climbs(pair, DIRECTION)
    }
    assert not up, shown(up)
    wrong = in_circles(units) | in_circles(modules)
    assert not wrong, shown(wrong)


def test_relative_imports_are_not_used() -> None:
    """They would hide from the check above."""
    relative = re.compile(r"^\s*from \.", re.MULTILINE)
    found = [path for path in SOURCES if path.suffix == ".py" and relative.search(path.read_text())]
    assert found == []


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
