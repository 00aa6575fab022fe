"""Registries find what installed packages add by entry points, and say which package is broken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.errors import ToolchainError, UserError
from tuner.registry import Registry
from tuner.search.samplers import Sampler

Install = Callable[[str, str], None]
GROUP = "hvxtune.samplers"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts a package with lines of entry points where installed ones are found."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "annealing.py").write_text(
        "from tuner.search.samplers.optuna_samplers import Random\n"
        "class Annealing(Random): pass\n"
        "nothing = 3\n"
    )

    def add(package: str, entry_points: str) -> None:
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{entry_points}\n")

    return add


def registry() -> Registry[Sampler]:
    return Registry(
        "sampler",
        GROUP,
        {"random": "tuner.search.samplers.optuna_samplers:Random"},
        Sampler,
        choose_with="leave it out",
    )


def test_an_installed_package_adds_one_by_name(install: Install) -> None:
    install("annealing-search", "annealing = annealing:Annealing")
    found = registry()
    assert found.names() == ["random", "annealing"]
    assert found.find("annealing").__name__ == "Annealing"
    found.require("annealing")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nowhere:Annealing", "No module named 'nowhere'"),
        ("tuner.codegen:CodeGenerator", "is not a Sampler class"),
    ],
)
def test_a_broken_package_is_named(install: Install, place: str, why: str) -> None:
    install("annealing-search", f"annealing = {place}")
    with pytest.raises(ToolchainError, match="sampler 'annealing' of annealing-search") as caught:
        registry().find("annealing")
    assert why in str(caught.value)
    assert "upgrade or uninstall annealing-search" in str(caught.value)


def test_an_unknown_name_is_told_what_there_is(install: Install) -> None:
    install("annealing-search", "annealing = annealing:Annealing")
    with pytest.raises(UserError, match=r"unknown sampler 'anealing'.*random, annealing.*mean"):
        registry().find("anealing")
