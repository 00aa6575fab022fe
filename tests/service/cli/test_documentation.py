"""``tool docs``: the site is whole, needs nothing from elsewhere, and is served on loopback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from service.cli.site import CONFIG
from service.cli.site.hooks import on_page_markdown
from tests.test_docs import COMMANDS
from tuner.conformance.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]*\ssrc=["']?(?:https?:)?//|"""
    r"""<link[^>]*rel=["']?(?:stylesheet|preconnect|preload|icon)[^>]*href=["']?(?:https?:)?//|"""
    r"""@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)
"""What makes a browser load something from another server."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of it, built strictly: a broken link or a page outside the navigation fails here."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(CONFIG), "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return folder


def words(page: Path) -> str:
    """The text of a page as it is read."""
    return " ".join(re.sub(r"<[^>]+>", "", page.read_text()).split()).replace("&quot;", '"')


@pytest.mark.slow
def test_the_site_is_whole(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert {page.stem for page in site.glob("*.html")} >= pages
    assert f"hvxtune {version('hvxtune')}" in words(site / "tutorial.html")
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert {"environment.html", "reference/commands.html"} <= {
        entry["location"].partition("#")[0] for entry in index["docs"]
    }


SECTIONS = {
    "Tutorials": "Learn",
    "How-to guides": "Do",
    "Reference": "Look up",
    "Explanation": "Understand",
}
"""The sections of the site (https://diataxis.fr), as docs/index.md calls them."""


def test_every_page_is_of_one_kind() -> None:
    """The site and docs/index.md agree which; no page teaches, is looked up and explains alike."""
    navigation = CONFIG.read_text().partition("\nnav:\n")[2]
    found = re.findall(r"^  - ([^:]+):\n((?:      - .*\n)+)", navigation, re.MULTILINE)
    assert [title for title, _ in found] == list(SECTIONS)
    index = (ROOT / "docs" / "index.md").read_text()
    listed = [
        sorted(name for name in re.findall(r": ([\w-]+\.md)$", pages, re.MULTILINE))
        for _, pages in found
    ]
    assert listed == [
        sorted(re.findall(r"\]\(([\w-]+\.md)\)", text.partition("\n## ")[0]))
        for text in (index.partition(f"\n## {title}\n")[2] for title in SECTIONS.values())
    ]
    pages = [name for names in listed for name in names]
    assert sorted([*pages, "index.md"]) == sorted(p.name for p in (ROOT / "docs").glob("*.md"))


@pytest.mark.slow
def test_references_are_made_from_the_code(site: Path) -> None:
    commands = words(site / "reference" / "commands.html")
    for name, command in COMMANDS.items():
        assert f"hvxtune {name}" in commands
        for option in (one for p in command.params for one in p.opts if one.startswith("--")):
            assert option in commands, (name, option)
    assert "{choices}" not in commands
    routes = words(site / "reference" / "routes.html")
    assert "GET /v1/schedules/best" in routes
    assert "allow_nearest" in routes
    python = words(site / "reference" / "python.html")
    assert "tune( kernel: str" in python
    assert ":class:" not in python


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    files = [path for kind in ("html", "css") for path in site.rglob(f"*.{kind}")]
    assert len(files) > 20
    assert [path.name for path in files if LOADED.search(path.read_text())] == []


def on_page(text: str, place: str = "linking.md") -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=place))
    return on_page_markdown(text, page, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("see [examples/gemm](../examples/gemm).", "see `examples/gemm`."),
        ("[the list](../CHANGELOG.md#top)", "the list (`CHANGELOG.md`)"),
        ("[cli.md](cli.md#tune)", "[cli.md](cli.md#tune)"),
        ("| `warm\\|cold` | a \\| b |", "| `warm|cold` | a \\| b |"),
        ("a `x\\|y` outside of tables", "a `x\\|y` outside of tables"),
    ],
)
def test_pages_read_as_they_do_in_the_repository(written: str, shown: str) -> None:
    assert on_page(written) == shown


def test_without_its_extra_it_says_how_to_get_it(hvxtune, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    line = hvxtune("tool", "docs").error_line
    assert "pip install 'hvxtune[docs]'" in line
    assert str(ROOT / "docs") in line
