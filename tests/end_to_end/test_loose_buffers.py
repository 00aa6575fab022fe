"""Uploaded pipelines of which one buffer is somebody else's, at any address and stride."""

from __future__ import annotations

from pathlib import Path

import pytest

import db
import tuner
from service.client.cache import ClientCache
from service.fetching import Wish, fetch
from service.fetching.sources import LocalSource
from tests.end_to_end.test_unseen_pipelines import LEAST_RIGHT, gain_of, state, to_the_end
from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen import find_generator
from tuner.errors import CandidateError, UserError
from tuner.keeping.best import lookup_of
from tuner.keeping.memory_store import MemoryStore
from tuner.measure import find_measurer
from tuner.measure.cases import cases_of
from tuner.records.candidate import Candidate, Problem
from tuner.records.outcome import Outcome

__all__ = ["state"]
SEEDS, DRAWN, TRIALS = 2, 8, 5


def timed_layout(problem: Problem) -> dict[str, tuple[int, int]]:
    """Where the buffers of the timed call lie: bytes off an aligned address, and row strides."""
    timed = cases_of(problem).cases[0]
    return {
        one.spec.name: (one.layout.host_offset_bytes, one.layout.strides[0])
        for one in timed.arguments
    }


@pytest.mark.slow
def test_a_crop_is_tuned_beside_aligned_images_and_served_to_none_that_promises_otherwise(
    state: Path, tmp_path: Path
) -> None:
    with db.open_store() as store:
        source = LocalSource(store)

        def tuned(**loose: int) -> tuner.TuneResult:
            sizes = {**SIZES["blend"], **loose}
            return tuner.tune_pipeline(
                unseen_pipeline("blend"), sizes, store=store, trials=TRIALS, generator="halide"
            )

        aligned = tuned()
        crop = aligned.job.spec.problem
        kernel = tuner.kernels.find_kernel(crop.workload.kernel)
        asked = kernel.problem({**SIZES["blend"], "frame_loose": 1}, crop.contract, crop.target)
        with pytest.raises(UserError, match=r"no schedule is stored for .*frame_loose=1"):
            source.best(lookup_of(asked))

        loose = tuned(frame_loose=1)
        assert loose.job.spec.problem == asked
        wish = Wish("crop", lookup_of(asked))
        fetched = fetch(
            wish, source, folder=tmp_path, lock=tmp_path / "lock", cache=ClientCache(), update=False
        )
    assert fetched.pin.params == dict(asked.workload.params)
    header = (tmp_path / "crop.h").read_text()
    assert "frame is loose" in header
    assert "base is not aligned to 128 bytes" in header
    assert "frame is not aligned" not in header

    assert loose.best.measurement.verified
    assert timed_layout(asked) == {"frame": (1, 323), "base": (0, 256), "out": (0, 256)}
    promised, open_ = aligned.textbook, loose.textbook
    assert promised.config == open_.config
    assert promised.measurement.cycles <= open_.measurement.cycles
    with find_generator("halide")(1) as generator, find_measurer("qemu")() as measurer:
        same = generator.compile(Candidate(aligned.job.spec.problem, loose.best.config))
        assert measurer.measure(aligned.job.spec.problem, same).measurement.verified
        with pytest.raises(CandidateError) as refused:  # it checks what it was promised
            measurer.measure(asked, same)
        assert refused.value.outcome is Outcome.RUN_ERROR


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "loose", "contract"),
    [
        ("blend", {"frame": 1, "out": 1}, "static"),
        ("pixels", {"image": 2, "out": 2}, "static"),
        ("blend", {"out": 1}, "stride"),
    ],
)
def test_most_schedules_are_right_where_buffers_lie_anywhere(name, loose, contract):
    store = MemoryStore()
    result = tuner.tune_pipeline(
        unseen_pipeline(name),
        {**SIZES[name], **{f"{buffer}_loose": value for buffer, value in loose.items()}},
        contract=contract,
        store=store,
        trials=DRAWN + SEEDS,
        sampler="random",
        generator="halide",
    )
    problem = result.job.spec.problem
    offsets = timed_layout(problem)
    assert all(offsets[buffer][0] == 1 for buffer in loose)
    trials = store.trials(result.job.id)
    cut = [t for t in trials if t.outcome is Outcome.CUTOFF]
    judged = [t for t in trials if t not in cut] + to_the_end(problem, cut)
    right = [t for t in judged if t.outcome is Outcome.OK]
    assert len(right) / len(judged) >= LEAST_RIGHT, [t.error for t in judged if t.error]
    assert gain_of(result) > 1
