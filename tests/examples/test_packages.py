"""The worked packages: right under each contract, with the figures that their pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tuner.codegen.packaged import PackageGenerator
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.packages.check import checked
from tuner.packages.files import read_folder
from tuner.packages.kernel import PackageKernel, kept_here
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate

ROOT = Path(__file__).parents[2]
FOLDERS = sorted(path.parent for path in (ROOT / "examples" / "packages").glob("*/kernel.toml"))
WITH_OWN_SPACE = [f for f in FOLDERS if 'kind = "generator"' not in (f / "kernel.toml").read_text()]
"""All but Generators, whose tables show points of two spaces."""
ROW = re.compile(r"^\| (?P<name>[^|]+) \| (?P<config>\w+=[^|]*) \| (?P<cycles>[\d,]+) \|", re.M)
TARGET = find_target("hexagon-v66")


def shown(folder: Path) -> dict[str, tuple[dict[str, int | str], int]]:
    """The rows of the page: config and model cycles by name."""
    found = {}
    for row in ROW.finditer((folder / "README.md").read_text()):
        pairs = (pair.split("=") for pair in row["config"].split())
        config = {name: int(text) if text.isdigit() else text for name, text in pairs}
        found[row["name"].partition(",")[0]] = (config, int(row["cycles"].replace(",", "")))
    return found


def test_the_table_of_the_guide_has_the_figures_of_the_pages() -> None:
    page = (ROOT / "docs" / "packages.md").read_text()
    for folder in FOLDERS:
        rows = shown(folder)
        baseline, best = rows["baseline"][1], rows["best"][1]
        assert best <= baseline
        (line,) = [one for one in page.splitlines() if f"| [{folder.name}](" in one]
        assert f"| {baseline:,} | {best:,} | {baseline / best:.2f} |" in line


@pytest.mark.slow
@pytest.mark.parametrize("folder", WITH_OWN_SPACE, ids=lambda folder: folder.name)
def test_a_package_is_right_and_as_fast_as_its_page_says(folder: Path) -> None:
    kernel: PackageKernel = kept_here(read_folder(folder))
    assert [one.error for one in checked(kernel, TARGET) if one.explanation is None] == []
    problem = kernel.problem(None, Contract.STATIC, TARGET)
    measured = {}
    with PackageGenerator(1) as generator, QemuMeasurer() as measurer:
        for name, (config, _) in shown(folder).items():
            candidate = Candidate(problem, kernel.space(problem).config(config), generator.name)
            timed = measurer.measure(problem, generator.compile(candidate))
            measured[name] = timed.measurement.cycles
    assert measured == {name: cycles for name, (_, cycles) in shown(folder).items()}
