"""Stores that installed packages add: opened by the scheme of a URL."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from db import STORES, URL_VARIABLE, open_store, open_trials
from service.cli import main
from tuner.conformance.best import Stored, put
from tuner.errors import StoreError, ToolchainError

Install = Callable[[str], None]
MODULE = """
from tuner.keeping.memory_store import MemoryStore

KEPT = {}


class Shelf(MemoryStore):
    @classmethod
    def open(cls, url):
        return KEPT.setdefault(url, cls())
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a package with such an entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(STORES.__dict__, "_installed", raising=False)
    (tmp_path / "shelf_store.py").write_text(MODULE)

    def add(entry_point: str) -> None:
        info = tmp_path / "shelf_store-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf-store\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[hvxtune.stores]\n{entry_point}\n")

    yield add
    STORES.__dict__.pop("_installed", None)


def test_a_url_of_its_scheme_opens_it_and_commands_read_it(
    install: Install, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install("shelf = shelf_store:Shelf")
    url = "shelf://third/row"
    store = open_trials(url)
    put(store, Stored(1234), 1)
    monkeypatch.setenv(URL_VARIABLE, url)
    assert open_trials() is store
    shape = ["-pm=64", "-pn=128", "-pk=128"]
    assert main(["best", "gemm_u8", *shape, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] == 1234
    with pytest.raises(StoreError, match="unknown kind of database in shelf"):
        open_store()


def test_an_unknown_scheme_names_the_known_ones(install: Install) -> None:
    install("shelf = shelf_store:Shelf")
    with pytest.raises(StoreError, match="unknown store 'drawer'") as refused:
        open_trials("drawer://x")
    assert refused.value.accepted == "sqlite, postgresql, shelf"


def test_a_class_that_is_not_a_store_is_the_package_s_fault(install: Install) -> None:
    install("shelf = shelf_store:KEPT")
    with pytest.raises(ToolchainError, match="shelf-store"):
        open_trials("shelf://x")
