"""The gold candidate: a small kernel whose compiled code is known to be good.

What a device makes of it tells about the device: its result must be right, and it must take the
time it took there before. It is also the reference that a device with a clock runs between others.
"""

from __future__ import annotations

import threading
from functools import lru_cache

from tuner.codegen import CodeGenerator, find_generator
from tuner.identity import digest_of, digest_of_bytes
from tuner.kernels import find_kernel
from tuner.machine.paths import writable
from tuner.measure.farm.device import Task
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact, Candidate, Problem

_KERNEL, _PARAMS = "add_u8", {"width": 256, "height": 32}
_lock = threading.Lock()


def gold_task(arch: str, repeats: int = 1) -> Task:
    """The gold candidate for an arch such as ``v66``; compiled once and kept on disk.

    Raises ``UserError`` for an unknown arch and ``ToolchainError`` if there is no compiler.
    """
    problem = gold_problem(arch)
    with _lock:
        artifact = _compiled(problem)
    return Task(problem, artifact, warm_ups=1, repeats=repeats)


def gold_problem(arch: str) -> Problem:
    """What the gold candidate solves: of no SoC, and small enough for every one."""
    kernel = find_kernel(_KERNEL)
    return kernel.problem(_PARAMS, Contract.STATIC, find_target(f"hexagon-{arch}"))


@lru_cache(maxsize=8)
def _compiled(problem: Problem) -> Artifact:
    config = find_kernel(_KERNEL).default_config(problem)
    candidate = Candidate(problem, config)
    with find_generator(candidate.generator)(1) as generator:
        return _kept(candidate, generator)


def _kept(candidate: Candidate, generator: CodeGenerator) -> Artifact:
    key = digest_of({"candidate": candidate.digest, "generator": dict(generator.fingerprint())})
    path = writable("gold") / f"{key[:32]}.o"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        artifact = generator.compile(candidate)
        made = path.with_suffix(f".{threading.get_native_id()}")
        made.write_bytes(artifact.object_bytes)
        made.replace(path)
        return artifact
    return Artifact(digest_of_bytes(data), candidate.problem.symbol, {"object": data})
