"""Whatever the records can hold comes back from the database as it was."""

from __future__ import annotations

import dataclasses
import itertools
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from db import open_store
from db.models import ScheduleRow
from db.records import schedule_record
from tuner.conformance.records import SPACE, artifact
from tuner.problem.contract import Contract
from tuner.problem.target import Target
from tuner.problem.workload import Workload
from tuner.records.candidate import CACHE_STATES, FIDELITIES, Measurement, Problem
from tuner.records.outcome import Outcome
from tuner.records.request import Option, SearchOptions, options_of
from tuner.records.trial import JobSpec, PendingTrial, Schedule, Timings, Trial
from tuner.space import Config

# PostgreSQL has no NUL in text; error texts, which may have one, have a test of their own.
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
WHOLE = st.integers(0, 2**63 - 1)
SECONDS = st.floats(0, 1e10, allow_nan=False)
NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=8)
MADE = artifact(11)
EXAMPLES = itertools.count()
"""The examples share a database, so each has a toolchain, and with it a best, of its own."""


def every_field(record: type, **values: Any) -> st.SearchStrategy[Any]:
    """Builds ``record``; fails if it has a field that this test, and so maybe the database, does
    not know."""
    assert {f.name for f in dataclasses.fields(record)} == set(values), record.__name__
    return st.builds(record, **values)


WORKLOADS = every_field(
    Workload,
    kernel=NAMES,
    version=WHOLE,
    params=st.dictionaries(NAMES, st.integers(), max_size=5),
    source=st.just("") | NAMES,
)
TARGETS = every_field(
    Target,
    name=NAMES,
    arch=NAMES,
    soc=st.none() | NAMES,
    vector_bytes=WHOLE,
    vector_alignment_bytes=WHOLE,
    hvx_contexts=WHOLE,
    l1d_bytes=WHOLE,
    l2_bytes=WHOLE,
    vtcm_bytes=WHOLE,
    u8_macs_per_cycle=WHOLE,
)
PROBLEMS = every_field(
    Problem, workload=WORKLOADS, contract=st.sampled_from(Contract), target=TARGETS
)
OPTION_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float": SECONDS,
    "int": st.integers(-(2**63), 2**63 - 1),
    "names": st.permutations(["code_bytes", "vtcm_bytes"]).map(lambda more: ("cycles", *more)),
    "share": SECONDS,
    "text": NAMES,
}
"""By the kind of option: a new one is tried without a line here."""
CHOSEN = ("generator", "prefer", "sampler", "workers")
"""Options that a request may leave open, but not a job: they are chosen when it is made."""


def option_values(option: Option) -> st.SearchStrategy[Any]:
    if option.name == "cache":
        return st.sampled_from(CACHE_STATES)
    return OPTION_VALUES[option.kind]


SPECS = every_field(
    JobSpec,
    problem=PROBLEMS,
    cutoff_factor=st.floats(allow_nan=False, min_value=0),
    **{
        one.name: option_values(one)
        | (st.none() if one.optional and one.name not in CHOSEN else st.nothing())
        for one in options_of(SearchOptions)
    },
)
CONFIGS = st.dictionaries(NAMES, st.integers() | TEXT, max_size=8).map(Config)
MEASUREMENTS = every_field(
    Measurement,
    cycles=WHOLE,
    packets=st.none() | WHOLE,
    stalls=st.none() | WHOLE,
    temperature_c=st.none() | st.floats(-50, 150),
    vtcm_bytes=st.none() | WHOLE,
    ddr_bytes=st.none() | WHOLE,
    overhead_cycles=st.none() | WHOLE,
    expected_cycles=st.none() | WHOLE,
    lowest_cycles=st.none() | WHOLE,
    highest_cycles=st.none() | WHOLE,
    event_counts=st.none() | st.dictionaries(NAMES, st.lists(st.integers(), max_size=3)),
    verified=st.just(True),
    fidelity=st.sampled_from(FIDELITIES),
    cache=st.sampled_from(CACHE_STATES),
    device=TEXT,
    samples=st.lists(st.integers(), max_size=4).map(tuple),
    breakdown=st.dictionaries(TEXT, st.integers(), max_size=4),
    code_bytes=WHOLE,
    core_cycles=WHOLE,
)
TIMINGS = every_field(Timings, compile_s=SECONDS, link_s=SECONDS, run_s=SECONDS, overhead_s=SECONDS)


@st.composite
def trials(draw: st.DrawFn, number: int) -> Trial:
    outcome = draw(st.sampled_from(Outcome))
    is_ok = outcome is Outcome.OK
    values = {
        "number": st.just(number),
        "config": CONFIGS,
        "origin": TEXT,
        "outcome": st.just(outcome),
        "measurement": MEASUREMENTS if is_ok else st.none(),
        "artifact_digest": st.just(MADE.digest) if is_ok else st.sampled_from([None, MADE.digest]),
        "duplicate_of": st.none() | st.integers(0, 3).filter(lambda other: other != number),
        "error": st.none() | TEXT,
        "timings": TIMINGS,
        "started_at": SECONDS,
        "finished_at": SECONDS,
    }
    made: Trial = draw(every_field(Trial, **values))
    return made


PROVENANCE = st.dictionaries(NAMES, TEXT | WHOLE | SECONDS | st.none(), max_size=4)


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    spec=SPECS,
    toolchain=st.dictionaries(NAMES, TEXT, max_size=5),
    finished=st.tuples(*(trials(n) for n in range(4))),
    config=CONFIGS,
    measurement=MEASUREMENTS,
    extra=PROVENANCE,
    text=TEXT,
)
def test_records_come_back_as_they_were(
    spec: JobSpec,
    toolchain: dict[str, str],
    finished: tuple[Trial, ...],
    config: Config,
    measurement: Measurement,
    extra: dict[str, Any],
    text: str,
) -> None:
    toolchain["example"] = str(next(EXAMPLES))
    with closing(open_store()) as store:
        job = store.create_job(spec, SPACE, toolchain)
        token = store.claim(job.id)
        provenance = {
            **extra,
            "job": job.id,
            "trial": 0,
            "space_digest": SPACE.digest,
            "toolchain": toolchain,
            "created_at": 1.5,
        }
        offered = Schedule(spec.problem, config, text, measurement, MADE.digest, text, provenance)
        waiting = PendingTrial(9, config, text)
        store.commit(
            job.id,
            token,
            finished=finished,
            started=[waiting],
            artifacts=[MADE],
            schedule=offered,
        )
        found = store.job(job.id)
        assert found.spec == spec
        assert found.toolchain == toolchain
        assert store.trials(job.id) == list(finished)
        assert store.pending(job.id) == [waiting]
        # As it is stored: the best of an unknown kernel would be no answer.
        with store.reading() as session:
            row = session.scalars(select(ScheduleRow).filter_by(public_id=offered.public_id)).one()
            best = schedule_record(row, spec.problem)
        assert best == offered
        assert list(best.config) == list(config)
