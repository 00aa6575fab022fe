"""Pipelines of stages that no kernel has, as bytes: most schedules drawn from the derived space
are right, and the best found beats the pipeline as it was written many times over."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

import db
import tuner
from tests.end_to_end.test_kill_and_resume import kill_at
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
from tuner.paths import STATE_DIR_VARIABLE
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import Trial
from tuner.search.loop import DEFAULT_CUTOFF
from tuner.space import Config

HVXTUNE = Path(sys.executable).with_name("hvxtune")
TARGET = find_target("hexagon-v66")
DRAWN = 15
FEW = 4
SEEDS = 2
"""The default and the textbook schedule."""
LEAST_RIGHT, LEAST_GAIN = 0.8, 5.0


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sharpen", "column_mean", "running_sum", "pyramid", "tone_chain"])
def test_most_schedules_are_right_and_the_best_is_much_faster(name):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        SIZES[name],
        store=store,
        trials=DRAWN + SEEDS,
        sampler="random",
        generator="halide",
    )
    drawn = [t for t in store.trials(result.job.id) if t.origin == "random"]
    assert len(drawn) == DRAWN
    cut = [t for t in drawn if t.outcome is Outcome.CUTOFF]
    judged = [t for t in drawn if t not in cut] + to_the_end(result.job.spec.problem, cut)
    right = [t for t in judged if t.outcome is Outcome.OK]
    assert len(right) / DRAWN >= LEAST_RIGHT, [t.error for t in judged if t.error]
    assert all(t.measurement.verified for t in right)
    assert result.default.config.as_dict() == {"lanes": 1}
    assert gain_of(result) >= LEAST_GAIN


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
@pytest.mark.parametrize("name", ["attention", "layer_norm", "row_mean", "requantized"])
def test_sums_and_shifts_that_a_compiler_gets_wrong_are_right(name):
    """Without any schedule some of them take minutes: only what is scheduled is judged."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline(name)))
    problem = kernel.problem({**SIZES, **CHAINED_SIZES}[name], Contract.STATIC, TARGET)
    space, random = kernel.space(problem), Random(7)
    configs = [kernel.textbook_config(problem)]
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
    """In the header of the schedule, too: a specialization keeps partial sums in order."""
    kernel = find_kernel(keep_pipeline(unseen_pipeline("row_mean")))
    problem = kernel.problem(SIZES["row_mean"], Contract.STATIC, TARGET)
    textbook = kernel.textbook_config(problem)
    assert textbook["form_sums_0"] == "rfactor"
    packets = {}
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        for form in ("plain", "rfactor"):
            config = Config({**textbook.as_dict(), "form_sums_0": form})
            artifact = generator.compile(Candidate(problem, config))
            assert (b"specialize(" in artifact.files["schedule"]) == (form == "rfactor")
            packets[form] = measurer.measure(problem, artifact).measurement.packets
    assert 4 * packets["rfactor"] < packets["plain"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [("tone_chain", {"x": 300, "y": 37}), ("dense", {"o": 300, "n": 7})],
)
def test_most_schedules_are_right_where_no_vector_divides_the_width(name, sizes):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        sizes,
        store=store,
        trials=FEW + SEEDS,
        sampler="random",
        generator="halide",
    )
    trials = store.trials(result.job.id)
    right = [t for t in trials if t.outcome in (Outcome.OK, Outcome.CUTOFF)]
    assert len(right) / len(trials) >= LEAST_RIGHT, [t.error for t in trials if t.error]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("exposure", r"_image_buffer, uint8_t _gain, int16_t _offset, uint16_t _shift, .*_out_buf"),
        ("edges", r"_image_buffer, .*_smooth_buffer, .*_slopes_0_buffer, .*_slopes_1_buffer\)"),
    ],
)
def test_scalars_and_several_outputs_are_arguments(name, arguments):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        SIZES[name],
        store=store,
        trials=FEW + SEEDS,
        sampler="random",
        generator="halide",
    )
    trials = store.trials(result.job.id)
    right = [t for t in trials if t.outcome in (Outcome.OK, Outcome.CUTOFF)]
    assert len(right) / len(trials) >= LEAST_RIGHT, [t.error for t in trials if t.error]
    assert gain_of(result) >= LEAST_GAIN
    with find_generator("halide")(1) as generator:
        made = generator.compile(Candidate(result.job.spec.problem, result.best.config))
    assert re.search(arguments, made.files["header"].decode())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("sharpen", {"x": 512, "y": 48}),
        ("running_sum", {"x": 512, "y": 64}),
        ("dense", {"o": 256, "n": 32}),
    ],
)
def test_most_schedules_with_parallel_loops_are_right(name, sizes):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        {**sizes, "parallel": 1},
        store=store,
        trials=10,
        sampler="random",
        generator="halide",
    )
    trials = store.trials(result.job.id)
    right = [t for t in trials if t.outcome in (Outcome.OK, Outcome.CUTOFF)]
    assert len(right) / len(trials) >= LEAST_RIGHT, [t.error for t in trials if t.error]
    assert any(trial.config.get("strips", 1) != 1 for trial in right)


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
    peak = kernel.work(problem.workload.params).peak_cycles(TARGET)
    assert cycles[TARGET.hvx_contexts] > peak


@pytest.mark.slow
def test_under_a_weaker_contract_code_is_right_at_other_sizes_too():
    """Edges are continued, and callers choose the extents: each candidate runs at two sizes."""
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline("sharpen"),
        SIZES["sharpen"],
        contract="stride",
        store=store,
        trials=FEW + SEEDS,
        sampler="random",
        generator="halide",
    )
    trials = store.trials(result.job.id)
    right = [t for t in trials if t.outcome in (Outcome.OK, Outcome.CUTOFF)]
    assert len(right) / len(trials) >= LEAST_RIGHT, [t.error for t in trials if t.error]
    assert gain_of(result) >= LEAST_GAIN
    names = [case.name for case in cases_of(result.job.spec.problem).cases]
    assert names[-1] == "shape x=257 y=49"


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
        assert b"Func" in client.file(best, "schedule")
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


@pytest.mark.slow
def test_a_killed_job_goes_on_and_its_best_is_found_by_name(state, tmp_path):
    file = tmp_path / "mean.hlpipe"
    file.write_bytes(unseen_pipeline("column_mean"))
    environment = dict(os.environ)
    trials = 60  # seconds of work after the first: a kill that comes late still finds the job at it
    tune = [str(HVXTUNE), "tune", "--pipeline", str(file), "-p", "x=256", "--trials", str(trials)]

    def begun() -> bool:
        with db.open_store() as store:
            return any(store.trials(job.id) for job in store.jobs())

    kill_at(tune, environment, begun, 0.1)
    with db.open_store() as store:
        (job,) = store.jobs()
        before = {t.number: t for t in store.trials(job.id)}
    resume = [str(HVXTUNE), "job", "resume", job.id, "--json"]
    done = json.loads(subprocess.run(resume, check=True, capture_output=True, text=True).stdout)
    assert sum(done["outcomes"].values()) == trials
    with db.open_store() as store:
        assert {t.number: t for t in store.trials(job.id)}.items() >= before.items()
    best = [str(HVXTUNE), "best", "pipeline:mean", "-p", "x=256", "--json"]
    found = json.loads(subprocess.run(best, check=True, capture_output=True, text=True).stdout)
    assert found["cycles"] == done["best"]["cycles"]
