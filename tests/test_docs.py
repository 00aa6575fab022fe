"""The documents say what is true: nothing is missing from them, and what they show works."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from service.cli.app import app
from tests import option_table
from tuner.packages.manifest import schema

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


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    options = {option for p in COMMANDS[name].params for option in p.opts if option[0] == "-"}
    assert f"`hvxtune {name}" in page or f"$ hvxtune {name}" in page
    assert {option for option in options if option not in page} == set()


def test_the_options_of_a_job_are_those_of_its_definition() -> None:
    assert option_table.written() == option_table.option_table(), "run: make option-table"


def test_every_route_is_documented() -> None:
    """Within code quotes, as ``GET /v1/kernels/{name}``."""
    from fastapi import FastAPI

    from service.routers import include_all

    routes = FastAPI()
    include_all(routes)
    page = (ROOT / "docs" / "rest.md").read_text()
    served = {
        f"{method.upper()} {path}"
        for path, operations in routes.openapi()["paths"].items()
        for method in operations
    }
    assert served
    assert {route for route in served if f"`{route}`" not in page} == set()
    shown = set(re.findall(r"^\| `((?:GET|POST|PUT|DELETE) /[^`]*)`", page, re.MULTILINE))
    assert shown - served == set()


VARIABLE = re.compile(r"(?:HVXTUNE|AWS|HEXAGON|HL|OTEL)_[A-Z0-9_]*[A-Z0-9]")


def read_variables() -> set[str]:
    """Names of environment variables in the code: texts that are nothing else."""
    sources = [
        path
        for room in ("tuner", "db", "service", "dashboards")
        for path in (ROOT / room).rglob("*.py")
    ]
    return {
        node.value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and VARIABLE.fullmatch(node.value)
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
    elsewhere = {"AWS_REGION", "SSL_CERT_FILE"}  # read by the libraries alone
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
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [t for t in targets if not (page.parent / t).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_pages_name_exist(page: Path) -> None:
    """In code quotes, by their path from the root, such as ``tuner/keeping/store.py``."""
    rooms = "|".join(sorted(p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "."))
    named = re.findall(rf"`((?:{rooms})/[\w./-]+)`", page.read_text())
    assert [name for name in named if name[:6] != "build/" and not (ROOT / name).exists()] == []


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


def glossary() -> list[str]:
    """Every defined term, in order and in lower case."""
    text = (ROOT / "docs" / "glossary.md").read_text()
    return [term.lower() for term in re.findall(r"\*\*([^*]+)\*\*:", text)]


def test_no_term_is_defined_twice() -> None:
    terms = glossary()
    assert len(terms) > 50
    assert sorted(terms) == sorted(set(terms))


GENERAL = {
    *("address", "best", "cidr", "days", "default", "dir", "file", "folder", "from", "host"),
    *("name", "path", "percent", "place", "port", "priority", "promote", "seconds", "seed"),
    *("share", "text", "textbook", "to", "url", "value", "when"),
}
"""Words of placeholders that are not terms of hvxtune."""


def test_words_of_the_command_line_are_in_the_glossary() -> None:
    """The placeholders of options and arguments, such as ``JOB``, as a term or the end of one.

    An option's ``GOAL`` is an objective.
    """
    placeholders = {
        word.lower()
        for command in COMMANDS.values()
        for parameter in command.params
        for word in re.findall(r"[A-Z]{2,}", getattr(parameter, "metavar", None) or "")
    }
    spoken = {"objective" if word == "goal" else word for word in placeholders - GENERAL}
    assert {"kernel", "contract", "job"} <= spoken
    known = {end for term in glossary() for end in (term, term.split()[-1])}
    assert {word for word in spoken if not {word, word.removesuffix("s")} & known} == set()


README = (ROOT / "README.md").read_text()


def section(title: str) -> str:
    """Of the README, without its heading."""
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_readme_is_short_and_shows_a_page() -> None:
    assert len(README.splitlines()) < 120
    (picture,) = re.findall(r"^!\[[^\]]+\]\(([^)]+)\)$", README, re.MULTILINE)
    assert (ROOT / picture).parent == ROOT / "docs" / "img" / "pages"


def test_the_readme_calls_no_model_cycles_cycles() -> None:
    """Before a table or a comparison says which, a reader takes cycles for a chip's."""
    assert re.findall(r"\d (?:more |fewer )?cycles|(?<!model) cycles +packets", README) == []
    assert re.search(r"model cycles +packets", README)
    assert "docs/simulator.md" in section("Start")


def test_the_readme_compares_by_sources() -> None:
    """One table, and every other tool in it with a source that a reader can open."""
    head, _, *rows = [line for line in README.splitlines() if line.startswith("|")]
    assert section("Beside other tools").strip().startswith(head)
    assert rows.pop(0).startswith("| hvxtune |")
    assert len(rows) >= 3
    assert [row for row in rows if "](https://" not in row] == []


def test_the_readme_says_what_it_cannot_do() -> None:
    limits = section("Limits")
    assert "model, not from silicon" in limits
    assert "phone" in limits
    assert "](docs/limits.md)" in limits


def test_the_readme_leads_to_few_pages() -> None:
    """The first of them the one to begin with; docs/index.md leads to the others."""
    first, *others = re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", section("Documentation"), re.MULTILINE)
    assert first == "docs/tutorial.md"
    assert "docs/index.md" in others
    assert len(others) < 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_lead_to_the_glossary(page: Path) -> None:
    assert page.name == "glossary.md" or "glossary.md)" in page.read_text()


READING = re.compile(r"^\*\*([^*]+)\*\*.*\n((?:- .*\n)+)", re.MULTILINE)


def reading_lists() -> dict[str, list[str]]:
    """The files a newcomer reads, by the change they have in mind."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text[text.index("## What to read first") :]
    section = section[: section.index("\n## ", 1)]
    return {
        change: re.findall(r"^- `([^`]+)`", files, re.MULTILINE)
        for change, files in READING.findall(section)
    }


@pytest.mark.parametrize(
    "change",
    [
        *("A kernel", "A sampler", "A code generator", "A kind of device"),
        *("The best answer", "A job option", "A store"),
    ],
)
def test_a_newcomer_reads_at_most_six_files_that_exist(change: str) -> None:
    files = reading_lists()[change]
    assert 1 <= len(files) <= 6
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shown_make_targets_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    assert [name for name in shown if name not in targets] == []


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
    page = ROOT / "docs" / "packages.md"
    (program,) = [text for kind, text in BLOCK.findall(page.read_text()) if kind == "c"]
    (tmp_path / "program.c").write_text(program)
    session = session_of(page)
    assert [words[1] for words, _ in session][-1] == "simulate"
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
