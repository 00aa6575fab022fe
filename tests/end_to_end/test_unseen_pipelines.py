"""Pipelines of stages that no kernel has, as bytes: most schedules drawn from the derived space
are right, and the best found beats the pipeline as it was written many times over."""

from __future__ import annotations

import contextlib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import tuner
from tests.rig.unseen_pipelines import CHAINED_SIZES, SIZES, unseen_pipeline
from tests.service.served import served
from tuner.codegen import find_generator
from tuner.codegen.halide import server
from tuner.codegen.halide.uploads import readers
from tuner.executor.evaluation import Evaluator
from tuner.jobs.job_result import TuneResult
from tuner.jobs.tuning import keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.measure import find_measurer
from tuner.measure.cases import cases_of
from tuner.measure.roofline import roofline_of
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.loop import DEFAULT_CUTOFF
from tuner.space import Config

TARGET = find_target("hexagon-v66")
DRAWN = FEW = 4
SEEDS = 2
"""The default and the textbook schedule."""
LEAST_RIGHT = 0.8


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory with nothing in it."""
    folder = tmp_path / "state"
    folder.mkdir()
    monkeypatch.setenv(STATE_DIR_VARIABLE, str(folder))
    monkeypatch.delenv("HVXTUNE_DATABASE_URL", raising=False)
    return folder


def to_the_end(problem: Problem, trials: list[Trial]) -> list[Trial]:
    """Slow trials again, which a search leaves before their outputs are there."""
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        evaluator = Evaluator(generator, measurer)

        def again(trial: Trial) -> Trial:
            candidate = Candidate(problem, trial.config)
            return evaluator.evaluate(candidate, number=trial.number, origin="again").trial

        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(again, trials))


def gain_of(result: TuneResult) -> float:
    """How many times faster the best is than the default, or at least is: a default that takes too
    many times as long is cut off."""
    if result.default.outcome is Outcome.CUTOFF:
        return DEFAULT_CUTOFF
    return result.default.measurement.cycles / result.best.measurement.cycles


def timed_layout(problem: Problem) -> dict[str, tuple[int, int]]:
    """Where the buffers of the timed call lie: bytes off an aligned address, and row strides."""
    timed = cases_of(problem).cases[0]
    return {
        one.spec.name: (one.layout.host_offset_bytes, one.layout.strides[0])
        for one in timed.arguments
    }


ARGUMENTS = {
    "exposure": r"_image_buffer, uint8_t _gain, int16_t _offset, uint16_t _shift, .*_out_buf",
    "edges": r"_image_buffer, .*_smooth_buffer, .*_slopes_0_buffer, .*_slopes_1_buffer\)",
}
"""Those of pipelines with scalars, or several outputs, as their headers have them."""
TUNED = [
    ("running_sum", {}, "static", 5.0),
    ("exposure", {}, "static", 5.0),
    ("edges", {}, "static", 5.0),
    ("dense", {"o": 300, "n": 7}, "static", 1.0),  # no vector divides the width
    ("sharpen", {"x": 512, "y": 48, "parallel": 1}, "static", 1.0),
    ("sharpen", {}, "stride", 5.0),
    ("blend", {"frame_loose": 1, "out_loose": 1}, "static", 1.0),
]
"""Pipeline, sizes other than usual, contract, and by how much the best is faster than the pipeline
as it was written."""
ALSO_TUNED = [
    *((name, {}, "static", 5.0) for name in ("sharpen", "column_mean", "pyramid", "tone_chain")),
    ("tone_chain", {"x": 300, "y": 37}, "static", 1.0),
    ("running_sum", {"x": 512, "y": 64, "parallel": 1}, "static", 1.0),
    ("dense", {"o": 256, "n": 32, "parallel": 1}, "static", 1.0),
    ("pixels", {"image_loose": 2, "out_loose": 2}, "static", 1.0),
    ("blend", {"out_loose": 1}, "stride", 1.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes", "contract", "gain"),
    [*TUNED, *(pytest.param(*one, marks=pytest.mark.nightly) for one in ALSO_TUNED)],
)
def test_most_schedules_are_right_and_the_best_is_faster(name, sizes, contract, gain):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        {**SIZES[name], **sizes},
        contract=contract,
        store=store,
        trials=DRAWN + SEEDS,
        sampler="random",
        generator="halide",
    )
    problem, trials = result.job.spec.problem, store.trials(result.job.id)
    cut = [t for t in trials if t.outcome is Outcome.CUTOFF]
    judged = [t for t in trials if t not in cut] + to_the_end(problem, cut)
    right = [t for t in judged if t.outcome is Outcome.OK]
    assert len(right) / len(judged) >= LEAST_RIGHT, [t.error for t in judged if t.error]
    assert all(t.measurement.verified for t in right)
    assert min(t.measurement.cycles for t in right) >= roofline_of(problem).cycles
    assert result.default.config["lanes"] == 1
    assert gain_of(result) > gain
    loose = [size.removesuffix("_loose") for size in sizes if size.endswith("_loose")]
    assert {timed_layout(problem)[buffer][0] for buffer in loose} <= {1}
    if "parallel" in sizes:
        assert any(trial.config.get("strips", 1) != 1 for trial in right)
    if contract == "stride" and not loose:  # it runs at two sizes: callers choose the extents
        assert cases_of(problem).cases[-1].name == "shape x=257 y=49"
    if name in ARGUMENTS:
        with find_generator("halide")(1) as generator:
            made = generator.compile(Candidate(problem, result.best.config))
        assert re.search(ARGUMENTS[name], made.files["header"].decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *("decay", "middle", "pixels", "quarters", "contrast"),
        *("ninths", "features", "box", "laplacian", "mean_of_four"),
    ],
)
def test_what_a_compiler_gets_wrong_is_no_schedule(name):
    """Each has a pattern of which Halide 21 or its LLVM make wrong code, or none."""
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        SIZES[name],
        store=store,
        trials=FEW + SEEDS,
        sampler="random",
        generator="halide",
    )
    (textbook,) = [t for t in store.trials(result.job.id) if t.origin == "textbook"]
    assert textbook.outcome is Outcome.OK, textbook.error
    drawn = [t.outcome for t in store.trials(result.job.id) if t.origin == "random"]
    assert drawn.count(Outcome.WRONG_OUTPUT) + drawn.count(Outcome.COMPILE_ERROR) <= 1
    assert gain_of(result) > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention", "layer_norm", "row_mean"])
def test_sums_and_shifts_that_a_compiler_gets_wrong_are_right(name):
    """Without any schedule some of them take minutes: only what is scheduled is judged."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline(name)))
    problem = kernel.problem({**SIZES, **CHAINED_SIZES}[name], Contract.STATIC, TARGET)
    space, random = kernel.space(problem), Random(7)
    configs = [kernel.textbook_config(problem)]
    assert configs[0]["lanes"] != 1, "else there is nothing to draw"
    while len(configs) <= FEW:
        configs += [one for one in [space.sample(random)] if one["lanes"] != 1]
    with find_generator("halide")(2) as generator, find_measurer("qemu")() as measurer:
        evaluator = Evaluator(generator, measurer)
        for config in configs:
            candidate = Candidate(problem, config)
            trial = evaluator.evaluate(candidate, number=0, origin="drawn").trial
            assert trial.outcome is Outcome.OK, (config, trial.error)


@pytest.mark.slow
def test_rows_are_reduced_in_a_fraction_of_the_packets_that_lanes_one_by_one_take():
    """In the header of the schedule, too: a specialization keeps partial sums in order. The
    textbook's sums, of one vector each, lie between."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline("row_mean")))
    problem = kernel.problem(SIZES["row_mean"], Contract.STATIC, TARGET)
    textbook = kernel.textbook_config(problem)
    assert textbook["form_sums_0"] == "atomic"
    packets = {}
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        for form in ("plain", "atomic", "rfactor"):
            config = Config({**textbook.as_dict(), "form_sums_0": form})
            artifact = generator.compile(Candidate(problem, config))
            assert (b"specialize(" in artifact.files["schedule"]) == (form == "rfactor")
            packets[form] = measurer.measure(problem, artifact).measurement.packets
    assert 4 * packets["rfactor"] < packets["plain"]
    assert packets["rfactor"] < packets["atomic"] < packets["plain"]


@pytest.mark.slow
@pytest.mark.parametrize("contract", [Contract.STATIC, Contract.STRIDE, Contract.NONE])
def test_squares_are_summed_in_vectors_along_rows_of_any_length(contract):
    """Of partial sums Halide 21 makes none: under a guard it fails on products."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline("row_energy")))
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        for width in Random(35).sample(range(300, 600), 2):
            problem = kernel.problem({"x": width, "y": 8}, contract, TARGET)
            config = kernel.textbook_config(problem)
            artifact = generator.compile(Candidate(problem, config))
            packets = measurer.measure(problem, artifact).measurement.packets
            assert packets < 8 * width, config  # scalars take more than one each


@pytest.mark.slow
def test_parallel_loops_are_tasks_for_all_contexts():
    """Cycles are those of the slowest context, and the peak that of all."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline("sharpen")))
    problem = kernel.problem({"x": 512, "y": 256, "parallel": 1}, Contract.STATIC, TARGET)
    textbook = kernel.textbook_config(problem)
    cycles = {}
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        for strips in (1, TARGET.hvx_contexts):
            config = Config({**textbook.as_dict(), "strips": strips})
            artifact = generator.compile(Candidate(problem, config))
            assert (b"halide_do_par_for" in artifact.object_bytes) == (strips > 1)
            cycles[strips] = measurer.measure(problem, artifact).measurement.cycles
    assert cycles[1] > 2 * cycles[TARGET.hvx_contexts]
    assert cycles[TARGET.hvx_contexts] > roofline_of(problem).cycles


@pytest.mark.slow
def test_an_upload_is_tuned_by_name_and_its_object_served(state):
    """Nothing of it is opened in the service or its conductor: they never load Halide. Their
    readers do, whose children open it (``tests/tuner/codegen/test_uploads.py``), and so do compile
    servers, which may still be ending when their job is done."""
    with served(state) as service, service.client() as client:
        uploaded = client.upload_pipeline("total", unseen_pipeline("column_mean"))
        (job,) = client.submit("pipeline:total", {"x": 256}, trials=6, workers=2)
        assert job["kernel"] == uploaded["kernel"]
        done = client.wait(job["job"])
        assert done["state"] == "done", done["note"]
        best = client.best("pipeline:total", {"x": 256})
        assert best.document == client.best(uploaded["kernel"], {"x": 256}).document
        assert client.file(best, "object").startswith(b"\x7fELF")
        assert b"halide_buffer_t" in client.file(best, "header")
        maps = _maps_of_family(service.process.pid)
        assert len(maps) >= 2
        assert all("libHalide" not in text and "halide_" not in text for text in maps)


def _maps_of_family(pid: int) -> list[str]:
    """What the process and its children have loaded, those aside that are made to load Halide."""
    import psutil

    found = [Path(f"/proc/{pid}/maps").read_text()]
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
            if not {readers.MODULE, server.MODULE} & {*child.cmdline()}:
                found.append(Path(f"/proc/{child.pid}/maps").read_text())
    return found
