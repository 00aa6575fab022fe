"""Uploaded pipelines as kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.errors import UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.kernels import attached_kernel, find_kernel
from tuner.measure.cases import cases_of
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.uploaded import files

TARGET = find_target("hexagon-v66")


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HVXTUNE_STATE_DIR", str(tmp_path))
    return tmp_path


def sharpened(image: np.ndarray) -> np.ndarray:
    wide = np.pad(image, 1, mode="edge").astype(np.int32)
    across = wide[:, :-2] + 2 * wide[:, 1:-1] + wide[:, 2:]
    blurred = (across[:-2] + 2 * across[1:-1] + across[2:] + 8) >> 4
    return np.clip(2 * image.astype(np.int32) - blurred, 0, 255).astype(np.uint8)


@pytest.mark.slow
def test_the_reference_is_what_the_pipeline_says_on_every_case(monkeypatch):
    kernel = find_kernel(keep_pipeline(unseen_pipeline("sharpen")))
    problem = kernel.problem(SIZES["sharpen"], Contract.STATIC, TARGET)
    cases = cases_of(problem).cases
    assert {"random values", "extreme values", "zeros", "minimum values", "ramps"} <= {
        case.name for case in cases
    }
    for case in cases:
        image, sharp = case.arguments
        assert np.array_equal(sharp.elements, sharpened(image.elements)), case.name

    def never(*_: object) -> None:
        raise AssertionError("run again")

    monkeypatch.setattr("tuner.uploaded.kernel.reference_outputs", never)
    assert cases_of(problem).digest


@pytest.mark.slow
def test_a_compile_worker_makes_the_same_kernel_of_an_attachment():
    kernel = find_kernel(keep_pipeline(unseen_pipeline("column_mean")))
    problem = kernel.problem({"x": 256}, Contract.STATIC, TARGET)
    attached = attached_kernel(kernel.name, kernel.attachment(problem))
    assert attached.space(problem).digest == kernel.space(problem).digest
    config = kernel.textbook_config(problem)
    assert attached.schedule(problem, config) == kernel.schedule(problem, config)
    assert problem.symbol.isidentifier()
    with pytest.raises(UserError, match="innermost extent of buffer image is 250"):
        kernel.problem({"x": 250}, Contract.EXTENT, TARGET)
    with pytest.raises(UserError, match="x=0"):
        kernel.workload({"x": 0})


@pytest.mark.slow
def test_what_needs_a_known_extent_is_refused_under_weaker_contracts():
    kernel = find_kernel(keep_pipeline(unseen_pipeline("strongest")))
    assert kernel.problem({}, Contract.STATIC, TARGET)
    with pytest.raises(UserError, match="stage best reduces several values") as refused:
        kernel.problem({}, Contract.HOST, TARGET)
    assert refused.value.accepted == "static"


def test_a_pipeline_made_again_in_a_process_has_the_same_parameters():
    import halide as hl

    def made() -> hl.Pipeline:
        x, image = hl.Var("x"), hl.ImageParam(hl.UInt(8), 1, "image")
        even, odd = hl.Func("even"), hl.Func("odd")
        even[x], odd[x] = image[2 * x], image[2 * x + 1]
        return hl.Pipeline([even, odd])

    first, again = (find_kernel(keep_pipeline(made())) for _ in range(2))
    assert [one.name for one in again.params] == [one.name for one in first.params]
    assert "odd_x" in {one.name for one in again.params}


def test_unknown_pipelines_are_named():
    for name in ("pipeline:0123456789ab", "pipeline:../../etc", "pipeline:"):
        with pytest.raises(UserError, match="unknown pipeline"):
            find_kernel(name)


def test_a_pipeline_that_could_be_taken_for_another_is_refused():
    digest = files.keep(b"any bytes")
    twin = digest[:12] + "0" * 52
    with pytest.raises(UserError, match="with other bytes"):
        files.require_name(twin)


def test_a_reference_that_takes_too_much_memory_is_refused_as_such():
    """By what it takes, not as if the file were none."""
    import halide as hl

    x, y = hl.Var("x"), hl.Var("y")
    image, wide, out = hl.ImageParam(hl.UInt(8), 1, "image"), hl.Func("wide"), hl.Func("out")
    wide[x, y] = 0
    wide[x, y] += hl.i32(image[x])
    r = hl.RDom([(0, 1 << 16)], "r")
    out[x] = 0
    out[x] += wide[x, r]
    data = bytes(hl.serialize_pipeline(hl.Pipeline(out)))
    kernel = find_kernel(keep_pipeline(data))
    with pytest.raises(UserError, match=r"took more than 512 MiB to compute the reference of"):
        kernel.reference(kernel.workload({"x": 4096}).params, [np.zeros(4096, np.uint8)])
