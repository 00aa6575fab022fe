"""Packages whose code is a C++ Generator."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.rig.cpp_compilers import NEEDS_CPP
from tests.tuner.packages.broken import edit, opened
from tuner.codegen import space_of, starts_of
from tuner.errors import UserError
from tuner.jobs.tuning import tune
from tuner.keeping.memory_store import MemoryStore
from tuner.packages.check import checked
from tuner.packages.files import read_folder
from tuner.packages.kernel import kept_here
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.space import Space

pytestmark = [pytest.mark.slow, NEEDS_CPP]

EXAMPLE = Path(__file__).parents[3] / "examples/packages/unsharp"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "unsharp"))


def test_params_are_knobs_beside_the_derived_schedules(folder: Path) -> None:
    kernel = opened(folder)
    problem = kernel.problem({}, Contract.STATIC, find_target("hexagon-v66"))
    space = space_of("package", kernel, problem)
    assert space.knob("vectors").choices == (1, 2)  # as the program tells
    assert space.knob("tile_rows").choices == (1, 2, 4, 8, 16)  # as kernel.toml says
    names = [knob.name for knob in space.knobs]
    assert "derived.lanes" in names
    assert not {"manual", "width", "height"} & {*names}
    starts = starts_of("package", kernel, problem)
    of_algorithm = ["derived textbook", "derived portfolio:hvx", "derived portfolio:halide-clang"]
    c = "derived portfolio:c-autovec"
    assert [*starts] == ["default", "textbook", "baseline", *of_algorithm, c]
    assert all(space.admits(config.as_dict()) for config in starts.values())
    assert "derived.lanes" not in starts["baseline"]

    edit(folder, 'space = "both"', 'space = "params"')
    alone = space_of("package", opened(folder), problem)
    assert [knob.name for knob in alone.knobs] == [
        name for name in names if not name.startswith("derived.") and name != "schedule"
    ]


def _space_of(folder: Path) -> Space:
    kernel = opened(folder)
    return kernel.space(kernel.problem({}, Contract.STATIC, find_target("hexagon-v66")))


@pytest.mark.parametrize("contract", ["none"])
def test_hand_schedule_and_derived_ones_are_right(folder: Path, contract: str) -> None:
    kernel = kept_here(read_folder(folder))
    store = MemoryStore()
    size = {"width": 256, "height": 16}
    result = tune(kernel.name, size, store=store, contract=contract, trials=4, workers=1)
    right = {one.origin for one in store.trials(result.job.id) if one.measurement is not None}
    assert {"baseline", "derived textbook"} <= right
    assert result.headline.name == "baseline"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('manual = "false"', 'automatic = "false"', r"kernel\.toml:\d+:.*'automatic'.*manual"),
        ("choices = [1, 2, 4, 8, 16]", "choices = [1, 99]", r"tile_rows = 99.*1 to 16"),
        ('name = "sharpened"', 'name = "sharp"', r"the Generator takes .*sharpened: uint8"),
    ],
)
def test_what_the_generator_lacks_is_refused_with_what_it_has(
    folder: Path, old: str, new: str, said: str
) -> None:
    edit(folder, old, new)
    with pytest.raises(UserError, match=said):
        _space_of(folder)


def error_of(folder: Path) -> str:
    kernel = kept_here(read_folder(folder))
    found = next(checked(kernel, find_target("hexagon-v66"), ("default",)))
    assert found.outcome == "wrong_output", found.error
    return found.error


def test_a_wrong_output_says_whether_the_algorithm_is_wrong_or_its_schedule(folder: Path) -> None:
    shifted = "saturating_cast<uint8_t>((manual ? 1 : 0) + here"
    edit(folder, "saturating_cast<uint8_t>(here", shifted, "unsharp.cpp")
    assert "so the schedule is wrong, or Halide's code for it" in error_of(folder)
    edit(folder, shifted, "saturating_cast<uint8_t>(here", "unsharp.cpp")
    edit(folder, '[reference]\nkind = "generator"', '[reference]\nkind = "numpy"')
    (folder / "reference.py").write_text("def reference(image, width, height): return image\n")
    assert "without its schedule, too, the Generator gives other values" in error_of(folder)
