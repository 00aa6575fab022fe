"""Generators beside Halide's own, one by one and as a portfolio."""

from __future__ import annotations

import sys
import threading
from random import Random

import pytest

from tuner.codegen import clang, space_of, starts_of
from tuner.codegen.clang import HalideClangGenerator
from tuner.codegen.confinement import SYSTEM
from tuner.codegen.halide.servers import CompileServers
from tuner.codegen.portfolio import GENERATOR, chosen
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.jobs import tuning
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel, kernel_names
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config


def problem_of(kernel: str, **params: int):
    return find_kernel(kernel).problem(params, Contract.STATIC, find_target("hexagon-v66"))


@pytest.mark.parametrize("kernel", kernel_names())
def test_the_portfolio_of_every_kernel_has_the_spaces_of_its_members(kernel):
    problem = problem_of(kernel)
    starts = starts_of("portfolio", find_kernel(kernel), problem)
    for config in starts.values():
        name, own = chosen(config)
        assert space_of(name, find_kernel(kernel), problem).admits(own.as_dict())
    names = [chosen(config)[0] for config in starts.values()]
    assert names[:2] == ["halide", "halide"]
    written = [name for name in names if name in ("hvx", "intrinsics")]
    assert names[2:] == [*written, "halide-clang", "c-autovec"]


@pytest.mark.parametrize(
    ("kernel", "params"),
    [
        ("depthwise_conv2d_u8", {"height": 14, "width": 14, "channels": 144, "stride": 2}),
        ("conv2d_u8", {"height": 9, "width": 67, "channels_in": 4, "channels_out": 12, "size": 3}),
        ("gemm_u8", {"m": 3, "n": 40, "k": 64}),
    ],
)
def test_whatever_a_portfolio_proposes_its_generators_accept(kernel, params):
    problem, random = problem_of(kernel, **params), Random(0)
    space = space_of("portfolio", find_kernel(kernel), problem)
    for config in [space.sample(random) for _ in range(100)]:
        name, own = chosen(config)
        assert space_of(name, find_kernel(kernel), problem).admits(own.as_dict())


@pytest.mark.nightly
def test_every_switch_changes_code_somewhere():
    """One that changes none would be a choice without a difference."""
    unchanged = {(k.name, choice) for k in clang.KNOBS for choice in k.choices[1:]}
    with HalideClangGenerator(1, time_limit_s=PATIENCE_S) as generator:
        for kernel in ("max_pool_u8", "sobel_u8", "depthwise_conv2d_u8"):
            problem = problem_of(kernel)
            plain = generator.starts(find_kernel(kernel), problem)["textbook"]
            first = generator.compile(Candidate(problem, plain, generator.name)).digest
            for name, choice in sorted(unchanged):
                config = Config({**plain, name: choice})
                if generator.compile(Candidate(problem, config, generator.name)).digest != first:
                    unchanged.discard((name, choice))
    assert unchanged == set()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "outcome", "said"),
    [
        ("while True: pass", Outcome.TIMEOUT, "more than 2 s"),
        ("import os; os.abort()", Outcome.COMPILER_CRASH, "SIGABRT"),
        ("open('/dev/shm/escaped', 'w')", Outcome.COMPILE_ERROR, "PermissionError"),
        ("import socket; socket.socket()", Outcome.COMPILE_ERROR, "PermissionError"),
        ("pass", Outcome.COMPILE_ERROR, "without writing the object"),
    ],
)
def test_a_compiler_that_misbehaves_is_contained(program, outcome, said):
    servers = CompileServers(1, 2.0, 1 << 30)
    try:
        request = {
            "program": [sys.executable, "-S", "-c", program],
            "reads": [sys.base_prefix, sys.prefix, *SYSTEM],
        }
        with servers.one() as server, pytest.raises(CandidateError, match=said) as caught:
            servers.made(server, request, ["object"])
        assert caught.value.outcome is outcome
    finally:
        servers.close()


@pytest.mark.slow
def test_a_portfolio_job_is_stopped_and_resumed_and_every_alternative_tried_once():
    store = MemoryStore()
    options = {"trials": 8, "generator": "portfolio", "workers": 1, "sampler": "random"}
    params = {"width": 256, "height": 8}
    job = tuning.submit("box_blur_u8", params, store=store, **options)
    stop = threading.Event()

    def seen(progress):
        if progress.finished >= 3:
            stop.set()

    assert tuning.run(job.id, store, on_progress=seen, stop=stop).interrupted
    result = tuning.run(job.id, store)
    trials = store.trials(job.id)
    assert [trial.number for trial in trials] == list(range(8))
    assert len({trial.config for trial in trials}) == 8
    origins = [trial.origin for trial in trials]
    alternatives = [f"portfolio:{name}" for name in ("hvx", "halide-clang", "c-autovec")]
    assert origins[:5] == ["textbook", "default", *alternatives]
    assert result.best is not None
    assert result.schedule is not None
    assert result.schedule.generator == "portfolio"
    assert result.schedule.config[GENERATOR] in ("halide", "halide-clang", "c-autovec", "hvx")
    assert {"halide", "clang", "c-autovec code", "hvx code"} <= result.job.toolchain.keys()
