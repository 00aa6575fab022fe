"""Warm start: what a near problem's job measured is learned from, as far as it agrees."""

from __future__ import annotations

from random import Random
from statistics import fmean

import numpy as np
import pytest

from tests.rig.scale_u8 import ScaleU8
from tests.rig.stand_ins import StandInGenerator, StandInMeasurer
from tests.tuner.search.test_loop import SPACE, cycles_of
from tests.tuner.search.test_model_samplers import LARGE, bowl
from tuner.keeping.memory_store import MemoryStore
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.records.trial import JobSpec
from tuner.search.loop import TuningLoop
from tuner.search.proposer import Proposer
from tuner.search.samplers.gaussian_process import Fitter, GaussianProcess, Metric
from tuner.search.samplers.points import Points
from tuner.search.transfer import project, source_for, source_of
from tuner.space import Config, Constraint, Knob, Space

KERNEL = ScaleU8()


def problem(width):
    return KERNEL.problem({"n": width}, Contract.STATIC, find_target("hexagon-v66"))


class Jobs:
    """Jobs one after the other in one store."""

    def __init__(self):
        self.store = MemoryStore()

    def submit(self, width, **changes):
        options = {"trials": 14, "sampler": "surrogate", "generator": "halide", **changes}
        spec = JobSpec(problem=problem(width), **options)
        return self.store.create_job(spec, SPACE, {})

    def source(self, job):
        return source_of(self.store, job, KERNEL, SPACE)

    def run(self, job, measure=cycles_of):
        token = self.store.claim(job.id)
        TuningLoop(
            self.store.job(job.id),
            token,
            store=self.store,
            kernel=KERNEL,
            space=SPACE,
            generator=StandInGenerator(),
            measurer=StandInMeasurer(measure),
            source=self.source(job),
        ).run()
        return self.store.trials(job.id)


@pytest.fixture
def jobs():
    return Jobs()


def test_a_job_goes_on_with_the_best_of_a_near_one(jobs):
    def best(trials):
        return min(trials, key=lambda t: t.measurement.cycles)

    found = best(jobs.run(jobs.submit(512, trials=30)))
    trials = jobs.run(jobs.submit(640))
    assert [t.origin for t in trials] == ["textbook", "default", *["surrogate"] * 12]
    assert best(trials[:4]).measurement.cycles <= found.measurement.cycles
    without = jobs.run(jobs.submit(644, transfer=False))
    assert best(without[:4]).measurement.cycles > found.measurement.cycles


def test_cycles_are_those_that_the_job_ranks_by_over_the_textbook_configs(jobs):
    trials = jobs.run(jobs.submit(512))
    textbook, others = trials[0], {t.config: t.measurement.cycles for t in trials}
    source = jobs.source(jobs.submit(640, prefer="fastest"))
    assert source.textbook == textbook.config
    assert dict(source.results) == {
        config: cycles / textbook.measurement.cycles for config, cycles in others.items()
    }


def test_what_comes_later_changes_nothing_for_a_job_that_is_there(jobs):
    jobs.run(jobs.submit(512))
    job = jobs.submit(640)
    before = jobs.source(job)
    assert before is not None
    jobs.run(jobs.submit(636), lambda text: 1000 + 7 * cycles_of(text) % 997)
    assert jobs.source(job) == before
    assert jobs.source(jobs.submit(640)) != before
    assert jobs.source(jobs.submit(640, transfer=False)) is None


def test_of_many_results_the_best_are_kept_and_others_from_everywhere():
    cycles = {Config({"n": n}): n for n in range(1, 1001)}
    source = source_for(cycles, Config({"n": 10}), Config({"n": 3}), lambda config: config)
    kept = [ratio * 10 for _, ratio in source.results]
    assert len(kept) == pytest.approx(100, abs=1)
    assert kept[:50] == pytest.approx(range(1, 51))
    assert max(np.diff(kept)) < 30
    assert kept[-1] > 970


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


def stranger(config):
    """Nothing that ``bowl`` has: the sizes matter the other way, and the forms too."""
    turned = {n: 9 - v if n.startswith("k") else v for n, v in config.items()}
    return bowl({**turned, "form": {"a": "c", "b": "a", "c": "b"}[config["form"]]})


def drawn(seed, count):
    random = Random(seed)
    return [LARGE.sample(random) for _ in range(count)]


def errors(seed, there):
    """How far a model of a few results is off elsewhere, in standard deviations: with the results
    of ``there`` beside them, and alone."""
    own, past, asked = drawn(seed, 12), drawn(seed + 1000, 80), drawn(seed + 2000, 60)
    points, metric = Points(LARGE, 0), Metric(LARGE)
    places = {c: points.row_of(c) for c in (*own, *past, *asked)}
    logs = np.log([bowl(c) for c in (*own, *asked)])
    truth = (logs - logs.mean()) / logs.std()
    beside = np.log([there(c) for c in past])
    beside = (beside - beside.mean()) / beside.std()
    found = []
    for count in (len(past), 0):
        rows = np.array([points.rows[places[c]] for c in (*own, *past[:count])])
        targets = np.concatenate(
            [truth[: len(own)], ((beside - beside.mean()) / beside.std())[:count]]
        )
        others = np.arange(len(rows)) >= len(own)
        fitter = Fitter(len(LARGE.knobs), 0.0)
        settings = fitter.fit(metric.pairs(rows, others), targets, 40)
        model = GaussianProcess(metric, rows, targets, settings, others)
        features = metric.features(np.array([points.rows[places[c]] for c in asked]))
        found.append(float(np.abs(model.predict(features)[0] - truth[len(own) :]).mean()))
    return found


def test_results_that_agree_make_a_model_better_and_others_no_worse():
    agreeing = [errors(seed, bowl) for seed in range(6)]
    assert fmean(one for one, _ in agreeing) < 0.6 * fmean(alone for _, alone in agreeing)
    strange = [errors(seed, stranger) for seed in range(6)]
    assert fmean(one for one, _ in strange) < 1.1 * fmean(alone for _, alone in strange)


TEXTBOOK = Config({**{f"k{i}": 6 for i in range(6)}, "form": "a"})


def trials_to(enough, seed, there=None):
    """Trials of a search until its best is at most ``enough``."""
    source = None
    if there is not None:
        measured = {config: there(config) for config in (TEXTBOOK, *drawn(seed, 80))}
        source = source_for(measured, TEXTBOOK, TEXTBOOK, lambda config: config)
    proposer = Proposer(LARGE, "surrogate", seed, source=source)
    proposal = proposer.propose(TEXTBOOK)
    for trial in range(1, 101):
        cycles = bowl(proposal.config)
        proposer.tell(proposal, Outcome.OK, cycles)
        if cycles <= enough:
            return trial
        proposal = proposer.ask()
    return 100


def unrelated(config):
    """Cycles drawn by chance, the same for a config each time."""
    return Random(repr(sorted(config.items()))).randint(1000, 4000)


@pytest.mark.slow
def test_a_search_is_much_shorter_after_one_that_agrees_and_little_longer_after_another():
    alone, after, strange = (
        fmean(trials_to(1150, seed, there) for seed in range(6))
        for there in (None, bowl, unrelated)
    )
    assert after < 0.5 * alone
    assert strange < alone + 6
