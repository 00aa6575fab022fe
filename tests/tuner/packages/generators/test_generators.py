"""C++ Generators: compiled, listed and run, each time contained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.rig.cpp_compilers import NEEDS_CPP
from tuner.codegen.halide.compilation import halide_target
from tuner.codegen.halide.servers import CompileServers
from tuner.errors import CandidateError, UserError
from tuner.jobs.tuning import keep_pipeline
from tuner.packages.generators import (
    CppSources,
    Emission,
    Generator,
    emitted,
    listed,
    ready_program,
)
from tuner.problem.target import find_target
from tuner.records.outcome import Outcome
from tuner.uploaded import find_pipeline

_SOURCES = {
    "brighten.cpp": Path(__file__).with_name("brighten.cpp"),
    "unsharp.cpp": Path(__file__).parents[4] / "examples/packages/unsharp/unsharp.cpp",
}


@pytest.fixture(scope="module")
def program() -> Path:
    """A program of two Generators, of a source each."""
    files = {name: path.read_bytes() for name, path in _SOURCES.items()}
    return CppSources(files, list(files)).program()


@pytest.fixture(scope="module")
def servers() -> Iterator[CompileServers]:
    made = CompileServers(1, 3.0, 1 << 30)
    yield made
    made.close()


def _made(
    servers: CompileServers,
    program: Path,
    generator: str,
    params: Mapping[str, int | str],
    *kinds: str,
) -> dict[str, bytes]:
    target = halide_target(find_target("hexagon-v66"))
    emission = Emission(program, generator, target, "made_here")
    with servers.one() as server:
        return emitted(servers, server, emission, params, kinds)


def _named(program: Path, name: str) -> Generator:
    return next(one for one in listed(program) if one.name == name)


@NEEDS_CPP
@pytest.mark.slow
def test_a_program_lists_its_generators_with_params_and_arguments(program: Path) -> None:
    assert [one.name for one in listed(program)] == ["brighten", "unsharp"]
    unsharp = {param.name: param for param in _named(program, "unsharp").params}
    assert unsharp["vectors"].choices == (1, 2)
    assert unsharp["tile_rows"].choices == tuple(range(1, 17))
    assert unsharp["unroll_rows"].choices == ("false", "true")
    assert unsharp["columns_in"].choices == ("inline", "root", "tile")
    assert unsharp["columns_in"].default == "tile"
    assert not unsharp["tile_rows"].takes(17)
    brighten = _named(program, "brighten")
    assert {param.name: param.choices for param in brighten.params}["strength"] == ()
    told = [(one.name, one.output, one.buffer, one.types) for one in brighten.arguments]
    assert told == [
        ("image", False, True, ("uint8",)),
        ("gain", False, False, ("uint8",)),
        ("bright", True, True, ("uint8",)),
    ]


@NEEDS_CPP
@pytest.mark.slow
def test_the_same_params_give_the_same_object_and_others_another(
    program: Path, servers: CompileServers
) -> None:
    first, again, other = (
        _made(servers, program, "brighten", {"vectors": vectors}, "object", "header")
        for vectors in (1, 1, 2)
    )
    assert first["object"] == again["object"] != other["object"]
    assert b"int made_here(" in first["header"]


@NEEDS_CPP
@pytest.mark.slow
def test_the_algorithm_alone_is_a_pipeline_that_can_be_tuned(
    program: Path, servers: CompileServers
) -> None:
    made = _made(servers, program, "unsharp", {"manual": "false"}, "pipeline")
    kernel = find_pipeline(keep_pipeline(made["pipeline"]))
    assert {buffer.name for buffer in kernel.buffers({})} == {"image", "sharpened"}


@NEEDS_CPP
@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "outcome", "said"),
    [
        ("abort", Outcome.COMPILER_CRASH, "SIGABRT"),
        ("read", Outcome.COMPILE_ERROR, "no such file for me"),
    ],
)
def test_a_generator_that_misbehaves_is_the_outcome_of_its_candidate(
    program: Path, servers: CompileServers, fault: str, outcome: Outcome, said: str
) -> None:
    with pytest.raises(CandidateError, match=said) as caught:
        _made(servers, program, "brighten", {"fault": fault}, "object")
    assert caught.value.outcome is outcome


def test_what_is_no_program_of_generators_is_refused() -> None:
    with pytest.raises(UserError, match=r"fake\.gen"):
        ready_program("fake.gen", b"#!/bin/sh\nexit 0\n")
