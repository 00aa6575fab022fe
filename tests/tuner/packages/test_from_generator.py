"""Packages that are read off Generators as strangers write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.rig.cpp_compilers import NEEDS_CPP
from tuner.errors import UserError
from tuner.jobs.tuning import tune
from tuner.keeping.memory_store import MemoryStore
from tuner.packages.files import read_folder
from tuner.packages.from_generator import write_package
from tuner.packages.kernel import PackageKernel, kept_here
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome

pytestmark = [pytest.mark.slow, NEEDS_CPP]

THEIRS = Path(__file__).with_name("strangers") / "generators" / "pair.cpp"
PARAMS = {"blend": {}, "blocks": {}, "halved": {"half.type": "uint8"}}
_OLDER = """
#include "Halide.h"
class Older : public Halide::Generator<Older> {
public:
    Halide::Func build() { return Halide::Func(); }
};
HALIDE_REGISTER_GENERATOR(Older, older)
"""
CONTRACTS = {"blend": "static", "blocks": "none", "halved": "none"}


@pytest.fixture(scope="module", params=PARAMS)
def kernel(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> PackageKernel:
    folder = tmp_path_factory.mktemp("packages") / request.param
    write_package(THEIRS, folder, request.param, PARAMS[request.param])
    return kept_here(read_folder(folder))


def test_their_schedule_and_derived_ones_are_right(kernel: PackageKernel) -> None:
    store = MemoryStore()
    contract = CONTRACTS[kernel.package.manifest.name]
    size = dict(zip([param.name for param in kernel.params], (256, 16), strict=True))
    result = tune(kernel.name, size, store=store, contract=contract, trials=5, workers=1)
    found = {one.origin: one for one in store.trials(result.job.id)}
    assert found.pop("baseline").measurement is not None, found
    assert {"derived textbook", "derived portfolio:c-autovec"} <= {*found}
    assert {one.outcome for one in found.values()} <= {Outcome.OK, Outcome.CUTOFF}, found


def test_derived_loops_are_parallel_where_those_of_the_author_are(kernel: PackageKernel) -> None:
    space = kernel.space(kernel.problem(None, Contract.STATIC, find_target("hexagon-v66")))
    has_strips = any(knob.name == "derived.strips" for knob in space.knobs)
    assert has_strips == (kernel.package.manifest.name == "halved")


def test_each_input_is_felt_in_the_outputs(kernel: PackageKernel) -> None:
    size = dict(zip([param.name for param in kernel.params], (128, 4), strict=True))
    params = kernel.workload(size).params
    ones = [spec for spec in kernel.buffers(params) if spec.role == "input"]
    rng = np.random.default_rng(7)
    given = kernel.inputs(params, rng)
    (usual,) = kernel.reference(params, given)
    for at in range(len(ones)):
        changed = [*given]
        changed[at] = kernel.inputs(params, rng)[at]
        (other,) = kernel.reference(params, changed)
        assert (usual != other).mean() > 0.5


def test_an_extent_may_follow_another_in_blocks(tmp_path: Path) -> None:
    write_package(THEIRS, tmp_path / "blocks", "blocks")
    kernel = kept_here(read_folder(tmp_path / "blocks"))
    for channels, shape in ((5, (1, 5)), (16, (1, 16)), (17, (2, 16)), (100, (7, 16))):
        shapes = {one.name: one.shape for one in kernel.buffers({"c": channels, "x": 4})}
        assert shapes["weights"] == shape


def test_an_extent_may_follow_another_in_whole_blocks(tmp_path: Path) -> None:
    write_package(THEIRS, tmp_path / "whole", "whole")
    kernel = kept_here(read_folder(tmp_path / "whole"))
    for channels, width in ((32, 32), (63, 32), (64, 64), (130, 128)):
        shapes = {one.name: one.shape for one in kernel.buffers({"c": channels, "x": 4})}
        assert shapes["image"] == (4, width)
    assert {one.name: one.minimum for one in kernel.params} == {"c": 32, "x": 1}


def test_what_is_computed_of_floats_once_is_passed(tmp_path: Path) -> None:
    write_package(THEIRS, tmp_path / "graded", "graded")
    kernel = kept_here(read_folder(tmp_path / "graded"))
    found = {one.name: (one.dtype, one.shape) for one in kernel.buffers({"x": 8, "y": 4})}
    assert found == {
        "image": ("uint8", (4, 8)),
        "curve": ("int16", (256,)),
        "table": ("int32", (2, 3)),
        "graded": ("int32", (4, 8)),
    }
    assert [(one.name, one.dtype) for one in kernel.scalars({})] == [("strength", "uint8")]
    (bounded,) = (one for one in kernel.package.manifest.buffers if one.name == "table")
    assert (bounded.minimum, bounded.maximum) == (-(1 << 23), (1 << 23) - 1)
    result = tune(kernel.name, {"x": 128, "y": 4}, store=MemoryStore(), trials=3, workers=1)
    assert result.best is not None
    assert result.baseline is not None


@pytest.mark.parametrize(
    ("text", "generator", "said"),
    [
        (
            None,
            "",
            r"has 8 Generators. accepted: blend, blocks, floats, .*squares, whole.*--gen",
        ),
        (
            None,
            "blond",
            r"has no Generator 'blond.. accepted: blend, blocks, floats, .*squares, whole",
        ),
        (None, "halved", r"the Generator halved gives no pipeline: .*half.*--param"),
        (None, "squares", r"dimension 1 of image has .* elements at a size of"),
        (
            None,
            "scaled",
            r"scalar scale is of float32. accepted: int8, .* beforehand, ",
        ),
        (None, "floats", r"the algorithm of the Generator floats cannot be tuned: .*float32"),
        ("", "", r"empty\.cpp registers no Generator. accepted: HALIDE_REGISTER_GENERATOR"),
        ("int main(", "", r"empty\.cpp does not compile: .*main"),
        (_OLDER, "", r"empty\.cpp has no generate\(\): .* accepted: void generate\(\), with"),
        ('#include "lost.h"', "", r"empty\.cpp does not compile: .*lost\.h: No such file"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, text: str | None, generator: str, said: str
) -> None:
    source = THEIRS
    if text is not None:
        source = tmp_path / "empty.cpp"
        source.write_text(text)
    with pytest.raises(UserError, match=said):
        write_package(source, tmp_path / "made", generator)
    assert not (tmp_path / "made").exists()
