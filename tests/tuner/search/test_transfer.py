"""Warm start: what near problems' jobs found is projected, tried early, and told by origin."""

from __future__ import annotations

import pytest

from tests.rig.scale_u8 import ScaleU8
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.tuner.search.test_loop import SPACE, cycles_of
from tuner.keeping.memory_store import MemoryStore
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.trial import JobSpec
from tuner.search.loop import TuningLoop
from tuner.search.transfer import project, transferred, unlike
from tuner.space import Config, Constraint, Knob, Space

KERNEL = ScaleU8()


def problem(width):
    return KERNEL.problem({"n": width}, Contract.STATIC, find_target("hexagon-v66"))


class Jobs:
    """Jobs one after the other in one store."""

    def __init__(self):
        self.store = MemoryStore()

    def submit(self, width, **changes):
        options = {"trials": 10, "sampler": "random", "generator": "halide", **changes}
        spec = JobSpec(problem=problem(width), **options)
        return self.store.create_job(spec, SPACE, {})

    def transfers(self, job):
        return transferred(self.store, job, KERNEL, SPACE)

    def run(self, job):
        token = self.store.claim(job.id)
        self.measurer = StandInMeasurer(cycles_of)
        TuningLoop(
            self.store.job(job.id),
            token,
            store=self.store,
            kernel=KERNEL,
            space=SPACE,
            generator=StandInGenerator(),
            measurer=self.measurer,
            transfers=self.transfers(job),
        ).run()
        return self.store.trials(job.id)


@pytest.fixture
def jobs():
    return Jobs()


def test_a_job_begins_with_textbook_and_default_and_the_best_of_a_near_one(jobs):
    first = jobs.submit(512)
    fastest = sorted(jobs.run(first), key=lambda t: t.measurement.cycles)
    trials = jobs.run(jobs.submit(640))
    begun_with = [t for t in trials if t.origin.startswith("transfer:")]
    assert [t.number for t in begun_with] == list(range(2, 2 + len(begun_with)))
    assert [t.origin for t in trials[:2]] == ["textbook", "default"]
    assert trials[2 + len(begun_with)].origin == "random"
    assert begun_with[0].config == fastest[0].config
    assert min(t.measurement.cycles for t in trials) <= fastest[0].measurement.cycles


def test_what_comes_later_changes_nothing_for_a_job_that_is_there(jobs):
    jobs.run(jobs.submit(512))
    job = jobs.submit(640)
    before = jobs.transfers(job)
    assert before
    jobs.run(jobs.submit(636))
    assert jobs.transfers(job) == before
    assert jobs.transfers(jobs.submit(640)) != before


def test_configs_that_are_handed_on_are_unlike_each_other():
    """Twins of the fastest cost a trial each and teach what it does."""
    ranked = [Config({"a": a, "b": b, "c": c, "d": d}) for a, b, c, d in TWINS]
    assert [tuple(one.values()) for one in unlike(ranked)] == [(0, 0, 0, 0), (1, 1, 1, 0)]
    assert unlike(ranked, taken=[ranked[0]]) == [ranked[3]]


TWINS = [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 1), (1, 1, 1, 0), (1, 1, 1, 1)]


TARGET_SPACE = Space(
    "example",
    (
        Knob("tile", (1, 3, 8), "rows"),
        Knob("form", ("plain", "vrmpy"), "a form"),
        Knob("unroll", (1, 2), "steps", when="tile > 1"),
    ),
    (Constraint("form != 'vrmpy' or tile < 8", "wide tiles spill"),),
)
DEFAULT = Config({"tile": 1, "form": "plain"})


@pytest.mark.parametrize(
    ("config", "nearest"),
    [
        ({"tile": 2, "form": "vrmpy", "unroll": 2}, {"tile": 3, "form": "vrmpy", "unroll": 2}),
        ({"tile": 8, "form": "vrmpy", "unroll": 1}, {"tile": 8, "form": "plain", "unroll": 1}),
        ({"tile": 3, "form": "other"}, {"tile": 3, "form": "plain", "unroll": 1}),
    ],
)
def test_a_config_of_another_space_becomes_the_nearest_legal_one(config, nearest):
    assert project(TARGET_SPACE, Config(config), DEFAULT).as_dict() == nearest


def test_only_what_was_faster_than_its_textbook_is_handed_on_if_asked_for(jobs):
    first = jobs.submit(512)
    trials = jobs.run(first)
    textbook = next(t for t in trials if t.origin == "textbook")
    faster = {t.number for t in trials if t.measurement.cycles < textbook.measurement.cycles}
    found = transferred(jobs.store, jobs.submit(640), KERNEL, SPACE, improved=True)
    assert {origin for _, origin in found} <= {f"transfer:{first.id}-{n}" for n in faster}
    assert bool(found) == bool(faster)
