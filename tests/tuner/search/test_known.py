"""Objects that a job has had: what makes one of them again gets no trial, and nothing else is left
out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.rig.stand_ins import StandInGenerator
from tests.tuner.search.test_loop import PROBLEM, SPACE, Rig
from tuner.jobs.tuning import tune
from tuner.keeping.memory_store import MemoryStore
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.records.trial import Budget, JobState
from tuner.search.known import KnownObjects
from tuner.space import Config


def without(config, *names):
    return Config({name: value for name, value in config.items() if name not in names})


def plain(config):
    return without(config, "extra").json


class WithSwitches(StandInGenerator):
    compiler_knobs = frozenset({"extra"})


def without_effect(rig, *, told_by_compiler):
    """``extra`` has no effect: its code says so, or the compiler does."""
    if told_by_compiler:
        alike = {"extra": frozenset(range(8))}
        rig.generator = WithSwitches(object_of=plain, alike=alike)
    else:
        rig.generator = StandInGenerator(object_of=plain, identity_of=plain)


@pytest.mark.parametrize("sampler", ["random", "tpe", "surrogate"])
@pytest.mark.parametrize(
    # Of nine handed out at once the identities are known, and what a compiler says is not yet.
    ("told_by_compiler", "workers"),
    [(True, 1), (True, 3), (False, 1), (False, 9)],
)
def test_each_object_is_built_once_and_all_are(told_by_compiler, sampler, workers):
    rig = Rig(budget=Budget(trials=30), sampler=sampler, workers=workers)
    without_effect(rig, told_by_compiler=told_by_compiler)
    assert rig.run() is JobState.DONE
    built = [plain(trial.config) for trial in rig.trials if trial.duplicate_of is None]
    assert sorted(built) == sorted({plain(config) for config in SPACE})
    # Two may be under way before the compiler has told of the first.
    assert len(built) == len(rig.trials) or (told_by_compiler and workers > 1)


@pytest.mark.slow
def test_a_job_of_single_pixels_builds_each_object_once_and_says_when_it_has_all():
    store = MemoryStore()
    shape = {"width": 256, "height": 16}
    job = tune("rgb_to_gray_u8", shape, store=store, generator="hvx", trials=100, workers=1).job
    trials = store.trials(job.id)
    assert 10 < len(trials) < 40
    assert not [trial for trial in trials if trial.duplicate_of is not None]
    assert store.job(job.id).note.startswith("the space is used up")


def test_a_sampler_that_walks_all_tries_all():
    rig = Rig(budget=Budget(trials=40), sampler="brute")
    without_effect(rig, told_by_compiler=False)
    rig.run()
    assert len(rig.trials) == len(list(SPACE))


def test_a_failure_of_the_device_says_nothing_of_the_object():
    rig = Rig(budget=Budget(trials=1))
    without_effect(rig, told_by_compiler=False)
    rig.run()
    known = KnownObjects(rig.generator, Candidate(PROBLEM, Config({}), "halide"))
    one, other = (c for c in SPACE if c.get("extra") in (0, 1) and c["unroll_rows"] == 1)
    known.begin(0, one)
    assert known.twin(other) == 0
    failed = replace(rig.trials[0], outcome=Outcome.DEVICE_ERROR, measurement=None)
    known.learn(failed, None)
    assert known.twin(other) is None


def test_knobs_that_never_left_the_code_as_it_was_are_soon_not_asked_about():
    asked = []

    def identity(config):
        asked.append(config)
        return config.json

    rig = Rig(budget=Budget(trials=30), sampler="random")
    rig.generator = StandInGenerator(identity_of=identity)
    rig.run()
    assert len(rig.trials) == 30
    assert 0 < len(asked) < 25
