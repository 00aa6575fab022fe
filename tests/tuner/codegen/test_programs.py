"""C of programs, of uploaded pipelines and of kernels, on the simulated DSP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import halide as hl
import pytest

from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.c_autovec import CGenerator
from tuner.codegen.portfolio import GENERATOR
from tuner.conformance.patience import PATIENCE_S
from tuner.jobs import tuning
from tuner.jobs.tuning import keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel, kernel_names
from tuner.measure.qemu.measurer import QemuMeasurer
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate

TARGET = find_target("hexagon-v66")
PIPELINES = ("pyramid", "running_sum", "histogram", "exposure", "features", "strongest", "dense")
ODD = {
    "conv2d_u8": {"height": 5, "width": 3, "channels_in": 12, "channels_out": 33, "size": 3},
    "depthwise_conv2d_u8": {"height": 5, "width": 7, "channels": 33, "stride": 2},
    "avg_pool_u8": {"height": 3, "width": 2, "channels": 131, "size": 3},
    "max_pool_u8": {"height": 7, "width": 5, "channels": 131},
    "qconv2d_u8": {"height": 5, "width": 3, "channels_in": 12, "size": 3, "stride": 2, "before": 1},
    "qdepthwise_conv2d_u8": {"height": 5, "width": 7, "channels": 33, "stride": 2},
}
IMAGES, PRODUCTS = {"width": 131, "height": 3}, {"m": 3, "n": 133, "k": 15}
_OPEN = (Contract.NONE, Contract.HOST, Contract.STRIDE)
_STATIC_ALONE = ("strongest",)
"""Of which Halide makes no code where sizes are open."""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(tmp_path))


@pytest.fixture(scope="module")
def generator() -> Iterator[CGenerator]:
    with CGenerator(1, time_limit_s=PATIENCE_S) as made:
        yield made


@pytest.fixture(scope="module")
def measurer() -> Iterator[QemuMeasurer]:
    with QemuMeasurer() as made:
        yield made


@pytest.mark.slow
def test_pipelines_of_every_kind_are_right_whatever_the_knobs(generator, measurer):
    random = Random(1)
    for name in PIPELINES:
        kernel = find_kernel(keep_pipeline(unseen_pipeline(name)))
        is_open = name not in _STATIC_ALONE
        for contract in (Contract.STATIC, *([random.choice(_OPEN)] if is_open else ())):
            problem = kernel.problem(SIZES[name], contract, TARGET)
            config = generator.space(kernel, problem).sample(random)
            artifact = generator.compile(Candidate(problem, config, generator.name))
            assert measurer.measure(problem, artifact).measurement.verified


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(kernel_names())))
def test_kernels_are_right_for_odd_shapes(number: int, generator, measurer):
    """Under the weakest contract and the strictest in turn."""
    name = kernel_names()[number]
    kernel, contract = find_kernel(name), (Contract.NONE, Contract.STATIC)[number % 2]
    problem = kernel.problem(
        ODD.get(name, PRODUCTS if "gemm" in name else IMAGES), contract, TARGET
    )
    config = generator.space(kernel, problem).sample(Random(number))
    artifact = generator.compile(Candidate(problem, config, generator.name))
    assert measurer.measure(problem, artifact).measurement.verified


@pytest.mark.slow
def test_loose_buffers_lie_where_the_caller_likes(generator, measurer):
    kernel = find_kernel(keep_pipeline(unseen_pipeline("sharpen")))
    params = {"x": 70, "y": 5, "image_loose": 1, "sharp_loose": 1}
    problem = kernel.problem(params, Contract.STATIC, TARGET)
    config = generator.starts(kernel, problem)["textbook"]
    artifact = generator.compile(Candidate(problem, config, generator.name))
    assert measurer.measure(problem, artifact).measurement.verified


@pytest.mark.slow
def test_a_transposed_image_is_stored_far_faster_than_by_any_schedule():
    """It is turned in registers; a schedule of Halide gathers or scatters element by element."""
    x, y = hl.Var("x"), hl.Var("y")
    image, turned = hl.ImageParam(hl.UInt(8), 2, "image"), hl.Func("turned")
    turned[x, y] = image[y, x]
    name = keep_pipeline(bytes(hl.serialize_pipeline(hl.Pipeline(turned))))
    store = MemoryStore()
    job = tuning.submit(name, {"x": 512, "y": 512}, store=store, trials=12, sampler="random")
    result = tuning.run(job.id, store)
    assert result.best is not None
    assert result.best.measurement is not None
    assert result.best.config[GENERATOR] == "hvx"
    by_schedules = [
        trial.measurement.cycles
        for trial in store.trials(job.id)
        if trial.measurement is not None and trial.config[GENERATOR] in ("halide", "halide-clang")
    ]
    assert by_schedules
    assert 30 * result.best.measurement.cycles < min(by_schedules)
