"""From a C++ Generator to a schedule, and back: the Generator makes code that is as fast."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.client.cache import ClientCache
from service.fetching import Wish, fetch
from service.fetching.generator_header import digest_of_sources
from service.fetching.sources import LocalSource
from tests.rig.cpp_compilers import NEEDS_CPP
from tuner.codegen.halide.compilation import halide_target
from tuner.codegen.halide.servers import CompileServers
from tuner.errors import UserError
from tuner.jobs.one_config import explain
from tuner.jobs.tuning import keep_pipeline, tune
from tuner.keeping.best import lookup_of
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.packages.generators import CppSources, Emission, emitted
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Artifact

pytestmark = [pytest.mark.slow, NEEDS_CPP]

SOURCE = Path(__file__).parents[2] / "examples/generator/unsharp_generator.cpp"
SIZE = {"x": 512, "y": 32}
TARGET = find_target("hexagon-v66")


def _made(files: dict[str, bytes], symbol: str, kind: str) -> bytes:
    program = CppSources(files, [SOURCE.name]).program()
    servers = CompileServers(1, 20, 1 << 30)
    emission = Emission(program, "unsharp", halide_target(TARGET), symbol)
    try:
        with servers.one() as server:
            return emitted(servers, server, emission, {}, [kind])[kind]
    finally:
        servers.close()


def test_the_generator_with_the_fetched_schedule_makes_code_as_fast(tmp_path: Path) -> None:
    source = SOURCE.read_bytes()
    kernel = keep_pipeline(_made({SOURCE.name: source}, "unsharp", "pipeline"))
    store = MemoryStore()
    result = tune(kernel, SIZE, store=store, trials=6, workers=1, generator="halide")
    problem = result.job.spec.problem

    wish = Wish("unsharp", lookup_of(problem), True, digest_of_sources([SOURCE]))
    places = {"folder": tmp_path, "lock": tmp_path / "hvxtune.lock", "cache": ClientCache()}
    fetched = fetch(wish, LocalSource(store), **places)
    header = fetched.files["schedule"].read_bytes()
    scheduled = b"#define HVXTUNE_SCHEDULED\n" + source
    made = _made({SOURCE.name: scheduled, "unsharp.schedule.h": header}, problem.symbol, "object")
    again = explain(problem, Artifact("0" * 64, problem.symbol, {"object": made}))
    # The Generator asks where its input begins; what is written of it counts from 0.
    assert again.cycles == pytest.approx(result.best.measurement.cycles, rel=0.04)

    changed = tmp_path / SOURCE.name
    changed.write_bytes(source.replace(b"+ 8) >> 4", b"+ 7) >> 4"))
    wish = Wish("unsharp", lookup_of(problem), True, digest_of_sources([changed]))
    with pytest.raises(UserError, match="sources of 'unsharp' have changed"):
        fetch(wish, None, **places)
    assert find_kernel(kernel).problem(SIZE, Contract.STATIC, TARGET) == problem
