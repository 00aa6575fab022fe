"""The documents say what is true: nothing is missing from them, and what they show works."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from service.cli.app import app
from tuner.packages.manifest import schema
from tuner.paths import cached

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND_PAGES = [ROOT / "README.md", ROOT / "docs" / "cli.md"]
"""Pages whose console blocks are a session that can be typed in, in order."""

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = {
    " ".join([name, *inner]): found
    for name, command in typer.main.get_command(app).commands.items()
    for inner, found in [
        ([], command),
        *(([one], below) for one, below in getattr(command, "commands", {}).items()),
    ]
    if inner or not hasattr(command, "commands")
}
"""By all words, such as ``token create``."""


def written() -> str:
    return "\n".join(page.read_text() for page in PAGES)


def shown_commands(page: Path) -> list[list[str]]:
    """The command lines of a page's console blocks, split like a shell does."""
    return [
        shlex.split(line.removeprefix("$ "))
        for kind, text in BLOCK.findall(page.read_text())
        if kind == "console"
        for line in text.splitlines()
        if line.startswith("$ ")
    ]


VARIABLE = re.compile(r"""["']((?:HVXTUNE|HEXAGON|HL)_[A-Z0-9_]*[A-Z0-9])["']""")


def read_variables() -> set[str]:
    """Names of environment variables in the code: texts that are nothing else."""
    return {
        name
        for room in ("tuner", "db", "service", "dashboards")
        for path in (ROOT / room).rglob("*.py")
        for name in VARIABLE.findall(path.read_text())
    }


def test_one_page_lists_every_environment_variable() -> None:
    """And none that the code does not read; those of CMake and Make come after its tables."""
    page = (ROOT / "docs" / "environment.md").read_text()
    for_processes, _, for_builds = page.partition("## In builds")
    listed = {
        name
        for row in re.findall(r"^\| (`.*?) \|", for_processes, re.MULTILINE)
        for name in re.findall(r"`([^`]*)`", row)
    }
    assert len(listed) > 20
    elsewhere = {"SSL_CERT_FILE"}  # read by the libraries alone
    assert listed - elsewhere == read_variables()
    builds = "\n".join(path.read_text() for path in (ROOT / "cmake").glob("*.*"))
    of_builds = set(re.findall(r"`(HVXTUNE_[A-Z_]+)`", for_builds.partition("## For tests")[0]))
    assert len(of_builds) > 5
    assert {name for name in of_builds if name not in builds} == set()
    settable = re.findall(
        r"^(?:find_program|set|option)\((HVXTUNE_\w+).*(?:CACHE|DOC|OFF)|^(HVXTUNE_\w+) \?=",
        builds,
        re.MULTILINE,
    )
    assert {name for pair in settable for name in pair if name} <= of_builds


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_files_and_make_targets_exist(page: Path) -> None:
    """Files in code quotes by their path from the root, such as ``tuner/keeping/store.py``."""
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    rooms = "|".join(sorted(p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "."))
    named = re.findall(rf"`((?:{rooms})/[\w./-]+)`", text)
    assert [name for name in named if name[:6] != "build/" and not (ROOT / name).exists()] == []
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)
    assert [name for name in shown if name not in targets] == []


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_headings_lead_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)", page.read_text())
    assert [
        f"{target}#{anchor}"
        for target, anchor in links
        if anchor not in anchors(page.parent / target if target else page)
    ] == []


def test_a_newcomer_reads_at_most_six_files() -> None:
    """Of each change that CONTRIBUTING.md leads into."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## What to read first")[2]
    lists = re.findall(r"^\*\*[^*]+\*\*.*\n((?:- .*\n)+)", text.partition("\n## ")[0], re.MULTILINE)
    assert len(lists) > 6
    assert [files for files in lists if files.count("\n- ") >= 6] == []


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.name)
def test_shown_commands_parse(page: Path) -> None:
    shown = shown_commands(page)
    assert shown
    for program, *words in shown:
        assert program == "hvxtune"
        known = [words[:length] for length in (2, 1) if " ".join(words[:length]) in COMMANDS]
        assert known, f"hvxtune {shlex.join(words)}"
        name = " ".join(known[0])
        COMMANDS[name].make_context(name, words[len(known[0]) :])


@pytest.mark.slow
@pytest.mark.parametrize("page", COMMAND_PAGES, ids=lambda page: page.name)
def test_shown_commands_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, in one new database, as a reader would type them."""
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path / 'read.sqlite'}")
    for _, *arguments in shown_commands(page):
        done = subprocess.run(
            [sys.executable, "-m", "service.cli", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"hvxtune {shlex.join(arguments)}: {done.stderr}"


@pytest.mark.slow
def test_the_page_on_pipelines_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Python, then its commands."""
    monkeypatch.setenv("HVXTUNE_DATABASE_URL", f"sqlite:///{tmp_path / 'read.sqlite'}")
    page = ROOT / "docs" / "pipelines.md"
    (program,) = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    shown = shown_commands(page)
    assert shown
    for arguments in [["-c", program], *(["-m", "service.cli", *words] for _, *words in shown)]:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, f"{arguments}: {done.stderr}"


def session_of(page: Path) -> list[tuple[list[str], list[str]]]:
    """The commands of a page's console blocks, each with the lines that it is shown to print."""
    found: list[tuple[list[str], list[str]]] = []
    for kind, text in BLOCK.findall(page.read_text()):
        for line in text.replace("\\\n", " ").splitlines() if kind == "console" else ():
            if line.startswith("$ "):
                found.append((shlex.split(line.removeprefix("$ ")), []))
            else:
                found[-1][1].append(line)
    return found


@pytest.mark.slow
def test_the_page_on_packages_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From nothing to a program that runs: its commands, in a new state directory, with no program
    on the PATH but those that come with hvxtune."""
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
    for variable in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):
        monkeypatch.setenv(variable, str(cached("zig-of-tests")))
    page = ROOT / "docs" / "packages.md"
    (program,) = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "c"]
    (tmp_path / "program.c").write_text(program)
    session = session_of(page)
    assert session[-1][0][1:3] == ["tool", "simulate"]
    for words, shown in session:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr}"
        assert done.stdout.splitlines()[-len(shown) :] == shown or not shown
    assert shown


def test_the_schema_of_packages_is_the_one_in_docs() -> None:
    shown = json.loads((ROOT / "docs" / "kernel.schema.json").read_text())
    assert shown == schema(), "run: hvxtune package schema > docs/kernel.schema.json"


@pytest.mark.slow
def test_shown_python_runs(tmp_path: Path) -> None:
    blocks = [t for kind, t in BLOCK.findall((ROOT / "README.md").read_text()) if kind == "python"]
    assert blocks
    for text in blocks:
        done = subprocess.run(
            [sys.executable, "-c", text.replace("trials=100", "trials=4")],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
