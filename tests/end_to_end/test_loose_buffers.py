"""Uploaded pipelines of which one buffer is somebody else's, at any address and stride."""

from __future__ import annotations

from pathlib import Path

import pytest

import db
import tuner
from service.client.cache import ClientCache
from service.fetching import Wish, fetch
from service.fetching.sources import LocalSource
from tests.end_to_end.test_unseen_pipelines import state, timed_layout
from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen import find_generator
from tuner.errors import CandidateError, UserError
from tuner.keeping.best import lookup_of
from tuner.measure import find_measurer
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome

__all__ = ["state"]
TRIALS = 5


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
