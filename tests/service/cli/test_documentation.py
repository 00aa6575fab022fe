"""``tool docs``: the site is whole, needs nothing from elsewhere, and is served on loopback."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import httpx
import pytest
from playwright.sync_api import expect

from service.cli.site import CONFIG, build
from service.cli.site.hooks import anchor, on_page_content, on_page_markdown
from service.cli.site.reading import minutes, word_counts
from tests.dashboards.chromium import chromium, lacking, patient
from tests.test_docs import COMMANDS
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import InternalError

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
    root = tmp_path_factory.mktemp("site")
    for other in ("0.0.9", "0.0.10", "img"):
        (root / other).mkdir()
        (root / other / "index.html").write_text(f"the site of {other}")
    done = subprocess.run(
        [sys.executable, "-m", "service.cli", "tool", "docs", "--build", str(root), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    folder = Path(printed["site"])
    assert folder == root / version("hvxtune")
    assert printed["versions"] == [folder.name, "0.0.10", "0.0.9"]
    assert set(printed["words"]) == {"README.md", *(p.name for p in (ROOT / "docs").glob("*.md"))}
    assert f'"{folder.name}/index.html"' in (root / "index.html").read_text()
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


@pytest.mark.slow
@pytest.mark.skipif(lacking() is not None, reason=str(lacking()))
def test_the_header_switches_between_versions(site: Path) -> None:
    handler = partial(SimpleHTTPRequestHandler, directory=str(site.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, chromium() as browser:
        Thread(target=server.serve_forever, daemon=True).start()
        page = patient(browser.new_page())
        page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
        page.wait_for_url(f"**/{site.name}/index.html")
        switch = page.locator(".md-version")
        expect(switch.locator(".md-version__current")).to_have_text(site.name)
        assert switch.locator("li").all_text_contents() == [site.name, "0.0.10", "0.0.9"]
        switch.locator(".md-version__current").focus()
        switch.get_by_role("link", name="0.0.10").click()
        expect(page.locator("body")).to_have_text("the site of 0.0.10")
        server.shutdown()


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


def test_code_is_not_read_word_by_word(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# One\n\ntwo three\n\n```sh\nfour five\n```\n")
    (tmp_path / "README.md").write_text("word " * 201)
    assert word_counts(tmp_path / "docs") == {"README.md": 201, "a.md": 4}
    assert (minutes(200), minutes(201)) == (1, 2)


def test_a_broken_link_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("# Top\n\n[one](nowhere.md), [two](index.md#nothing)\n")
    config = tmp_path / "mkdocs.yml"
    rules = "{anchors: warn, not_found: warn}"
    config.write_text(f"site_name: x\nplugins: []\nvalidation: {{links: {rules}}}\n")
    monkeypatch.setattr("service.cli.site.CONFIG", config)
    monkeypatch.setattr("service.cli.site.shipped", lambda folder: tmp_path / folder)
    with pytest.raises(InternalError, match=r"'nowhere\.md'.*#nothing"):
        build(tmp_path / "site", strict=True)
    build(tmp_path / "site", strict=False)
    assert (tmp_path / "site" / "index.html").exists()


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


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/a.js">',
        '<link rel="stylesheet" href="//fonts.example/css">',
        "@import url(https://fonts.example/css)",
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(text: str) -> None:
    assert LOADED.search(text)


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


def test_references_lead_to_pages_above_them() -> None:
    assert on_page("[cli.md](../cli.md)", "reference/commands.md") == "[cli.md](../cli.md)"
    assert on_page("[x](../../Makefile)", "reference/commands.md") == "x (`Makefile`)"


def test_anchors_are_those_of_github() -> None:
    assert anchor("From `hvxtune serve` to a linked object", "-") == (
        "from-hvxtune-serve-to-a-linked-object"
    )
    assert anchor("Fit & unfit", "-") == "fit--unfit"


def test_roles_of_docstrings_are_left_out() -> None:
    html = on_page_content("as :func:<code>tune</code>", None, None, None)  # type: ignore[arg-type]
    assert html == "as <code>tune</code>"


def test_without_its_extra_it_says_how_to_get_it(hvxtune, monkeypatch):
    monkeypatch.setitem(sys.modules, "mkdocstrings", None)
    line = hvxtune("tool", "docs").error_line
    assert "pip install 'hvxtune[docs]'" in line
    assert str(ROOT / "docs") in line


def test_it_listens_on_loopback_until_ctrl_c(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("the first page")
    program = (
        "from pathlib import Path; from service.cli.documentation import serve; "
        f"serve(Path({str(tmp_path)!r}), 0, as_json=True)"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(url, timeout=PATIENCE_S).text == "the first page"
        with pytest.raises(httpx.ConnectError):  # on this address alone
            httpx.get(url.replace("127.0.0.1", "127.0.0.2"), timeout=PATIENCE_S)
        server.send_signal(signal.SIGINT)
        _, errors = server.communicate(timeout=PATIENCE_S)
    finally:
        server.kill()
    assert (server.returncode, errors) == (0, b"")


def test_a_port_that_is_taken_is_named(hvxtune, monkeypatch):
    monkeypatch.setattr("service.cli.site.build", lambda folder, strict: None)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = hvxtune("tool", "docs", "--port", str(port)).error_line
    assert f"--port {port}: Address already in use" in line
    assert "0 for any" in line
