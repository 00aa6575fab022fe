"""Records with plausible values, for tests of stores: of a real kernel, with valid configs."""

from __future__ import annotations

import threading
from dataclasses import replace
from random import Random
from typing import Any

from tuner.identity import digest_of_bytes
from tuner.kernels import find_kernel
from tuner.measure.qemu.events import Events
from tuner.measure.qemu.uncertain import plausible_cycles
from tuner.problem.contract import Contract
from tuner.problem.target import Target, find_target
from tuner.problem.workload import Workload
from tuner.records.candidate import Artifact, Fidelity, Measurement, Problem
from tuner.records.outcome import Outcome
from tuner.records.trial import JobSpec, PendingTrial, Schedule, Timings, Trial
from tuner.space import Config

TOOLCHAIN = {"generator": "halide 21", "llvm": "20.1", "simulator": "qemu 7.2"}
NEWER_TOOLCHAIN = {**TOOLCHAIN, "llvm": "21.0"}
SYMBOL = "gemm_u8_m256_n64_k32_static"


def problem(m: int = 256, contract: Contract = Contract.STATIC) -> Problem:
    # The kernel's order of parameters is not the alphabet's, and must survive.
    workload = Workload("gemm_u8", 1, {"m": m, "n": 64, "k": 32})
    return Problem(workload, contract, find_target("hexagon-v68-sm8350"))


SPACE = find_kernel("gemm_u8").space(problem())


def spec(**changes: Any) -> JobSpec:
    values: dict[str, Any] = {
        "problem": problem(),
        "trials": 12,
        "seconds": 1.5,
        "sampler": "random",
        "seed": 7,
        "generator": "halide",
        "measurer": "qemu",
        "workers": 3,
        "cutoff_factor": 2.5,
    }
    return JobSpec(**{**values, **changes})


def config(number: int) -> Config:
    """One of the space's, another for each number."""
    with _one_at_a_time:
        while len(_configs) <= number:
            sampled = SPACE.sample(_random)
            if sampled not in _known:
                _known.add(sampled)
                _configs.append(sampled)
        return _configs[number]


_random = Random(1)
_one_at_a_time = threading.Lock()
_configs: list[Config] = []
_known: set[Config] = set()


def pending(number: int) -> PendingTrial:
    return PendingTrial(number, config(number), "tpe")


def artifact(seed: int, **more: bytes) -> Artifact:
    mixed = bytes((seed * k + seed // 251) % 251 for k in range(500))
    data = b"\x7fELF" + mixed + SYMBOL.encode() + b"\0"
    files = {"object": data, "header": b"int f(void);\n", **more}
    return Artifact(digest_of_bytes(data), SYMBOL, files)


def measurement(cycles: int = 1000, fidelity: Fidelity = "model") -> Measurement:
    counted = fidelity != "hardware"
    return Measurement(
        cycles=cycles,
        packets=cycles // 2 if counted else None,
        stalls=cycles // 10 if counted else None,
        verified=True,
        fidelity=fidelity,
        device="qemu-7.2" if counted else "phone-1",
        temperature_c=None if counted else 41.5,
        samples=(cycles, cycles + 1),
        breakdown={"issue": cycles // 2, "cache": 3},
        code_bytes=640,
    )


def ok(number: int, made: Artifact, cycles: int = 1000, **changes: Any) -> Trial:
    values: dict[str, Any] = {
        "number": number,
        "config": changes.get("config") or config(number),
        "origin": "tpe",
        "outcome": Outcome.OK,
        "measurement": measurement(cycles),
        "artifact_digest": made.digest,
        "timings": Timings(0.2, 0.1, 0.05, 0.01),
        "started_at": 1_700_000_000.25,
        "finished_at": 1_700_000_001.5,
    }
    return Trial(**{**values, **changes})


def failed(number: int, outcome: Outcome = Outcome.COMPILE_ERROR) -> Trial:
    return Trial(
        number,
        config(number),
        "random",
        outcome,
        error="Error: vector lanes",
        started_at=1_700_000_000.0,
        finished_at=1_700_000_000.5,
    )


def schedule(
    job_id: str,
    trial: Trial,
    *,
    of: Problem | None = None,
    toolchain: dict[str, str] | None = None,
    **changes: Any,
) -> Schedule:
    assert trial.measurement is not None
    assert trial.artifact_digest is not None
    values: dict[str, Any] = {
        "problem": of or problem(),
        "config": trial.config,
        "generator": "halide",
        "measurement": trial.measurement,
        "artifact_digest": trial.artifact_digest,
        "symbol": SYMBOL,
        "provenance": {
            "job": job_id,
            "trial": trial.number,
            "space_digest": SPACE.digest,
            "toolchain": toolchain or TOOLCHAIN,
            "created_at": trial.finished_at,
        },
    }
    return Schedule(**{**values, **changes})


def as_counted(measured: Measurement, target: Target) -> Measurement:
    """``measured`` with what its counted events may cost on ``target``."""
    if measured.event_counts is None:
        return measured
    events = Events.from_dict(measured.event_counts)
    found = plausible_cycles(events, target.arch, target.hvx_contexts)
    return replace(
        measured,
        expected_cycles=found.expected,
        lowest_cycles=found.lowest,
        highest_cycles=found.highest,
    )
