"""Puts schedules of real kernels into a store, without compiling anything."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from random import Random

from db.jobs.claims import Owner
from db.jobs.conductors import Conductor, renew
from db.sql_store import SqlStore
from tuner.conformance.records import TOOLCHAIN, as_counted
from tuner.identity import digest_of_bytes
from tuner.kernels import find_kernel
from tuner.machine.fitness import Abilities, Lack, Worker
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, CacheState, Fidelity, Measurement, Problem
from tuner.records.outcome import Outcome
from tuner.records.request import Preference
from tuner.records.trial import JobSpec, JobState, Schedule, Submission, Trial
from tuner.space import Config

_numbers = itertools.count(1)


def problem(
    kernel: str = "gemm_u8",
    contract: str = "static",
    target: str = "hexagon-v66",
    **params: int,
) -> Problem:
    return find_kernel(kernel).problem(params, Contract(contract), find_target(target))


def a_config(of: Problem, seed: int = 0) -> Config:
    """A point of the problem's space."""
    return find_kernel(of.workload.kernel).space(of).sample(Random(seed))


def store_schedule(
    store: SqlStore,
    of: Problem,
    cycles: int,
    *,
    fidelity: Fidelity = "model",
    toolchain: Mapping[str, str] = TOOLCHAIN,
    cache: CacheState = "warm",
    config: Config | None = None,
    submission: Submission | None = None,
) -> str:
    """Runs a job whose only trial is ``ok``, on paper; the id of its schedule."""
    number = next(_numbers)
    code = b"\x7fELF" + number.to_bytes(4, "big") * 100 + of.symbol.encode() + b"\0"
    made = Artifact(
        digest_of_bytes(code),
        of.symbol,
        {"object": code, "header": b"int f(void);\n", "loopnest": b"for x:\n", "schedule": b"//\n"},
    )
    chosen = config or a_config(of, number)
    on_phone = fidelity == "hardware"  # which counts neither packets nor stalls
    measurement = Measurement(
        cycles=cycles,
        packets=None if on_phone else cycles // 2,
        stalls=None if on_phone else cycles // 10,
        verified=True,
        fidelity=fidelity,
        device="qemu-7.2",
        samples=(cycles - 1, cycles, cycles + 1) if on_phone else (cycles,),
        breakdown={} if on_phone else {"issue": cycles // 2},
        code_bytes=640,
        cache=cache,
        temperature_c=41.5 if on_phone else None,
    )
    space = find_kernel(of.workload.kernel).space(of)
    job = store.create_job(
        JobSpec(problem=of, generator="halide", cache=cache), space, toolchain, submission
    )
    token = store.claim(job.id)
    schedule = Schedule(
        problem=of,
        config=chosen,
        generator="halide",
        measurement=measurement,
        artifact_digest=made.digest,
        symbol=made.symbol,
        provenance=job.provenance(0, 2.0),
    )
    trial = Trial(
        0, chosen, "tpe", Outcome.OK, measurement, made.digest, started_at=1.0, finished_at=2.0
    )
    store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=schedule)
    store.release(job.id, token, JobState.DONE)
    return f"{job.id}-0"


DOUBTED = (
    {"packets": 900, "l2_accesses": 800},
    {"packets": 1000, "l2_accesses": 300},
)
"""Events of two trials: the first is the best as long as an access to L2 costs less than 0.2."""


def store_doubted(
    store: SqlStore,
    *,
    end: JobState | None = JobState.DONE,
    counts: Sequence[Mapping[str, int] | None] = DOUBTED,
    prefer: Preference = "fastest",
) -> str:
    """A job whose best hangs on one assumed cost; its id. Of a trial without ``counts`` nobody kept
    the events."""
    of = problem(m=8, n=128, k=8)
    space = find_kernel(of.workload.kernel).space(of)
    spec = JobSpec(problem=of, generator="halide", prefer=prefer)
    job = store.create_job(spec, space, TOOLCHAIN)
    token = store.claim(job.id)
    for number, (events, packets) in enumerate(zip(counts, (900, 1000), strict=True)):
        code = b"\x7fELF" + bytes([number]) * 400 + of.symbol.encode() + b"\0"
        made = Artifact(digest_of_bytes(code), of.symbol, {"object": code, "header": b"\n"})
        measured = Measurement(
            packets,
            packets,
            0,
            True,
            "model",
            "qemu",
            (packets,),
            {"issue": packets},
            640,
            event_counts=None if events is None else {"loops": [0], "counts": [dict(events)]},
        )
        measured = as_counted(measured, of.target)
        config, ok = a_config(of, number), Outcome.OK
        trial = Trial(number, config, "tpe", ok, measured, made.digest, finished_at=2.0)
        provenance = job.provenance(number, 2.0)
        schedule = Schedule(of, config, "halide", measured, made.digest, of.symbol, provenance)
        store.commit(job.id, token, finished=[trial], artifacts=[made], schedule=schedule)
    if end is not None:
        store.release(job.id, token, end)
    return job.id


def unfit_conductor(store: SqlStore) -> None:
    """A conductor on another machine that does not reach the artifacts, of a cluster with a worker
    that has no simulator."""
    renew(
        store,
        Conductor(
            id="elsewhere",
            owner=Owner("lab7", 4711, time.time()),
            slots=2,
            version="0.2.0",
            artifacts="folder:/its/own",
            abilities=Abilities(("qemu",)),
            lacks=(Lack("artifacts", "not where the service has them"),),
            without=(Lack("hexagon-sim", "no SDK"),),
            executor="dask://lab7:8786",
            workers=(Worker("lab8-4712", 3, (), (Lack("qemu", "is missing"),)),),
        ),
    )
