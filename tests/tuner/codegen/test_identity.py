"""What is known of an object before it is compiled, and what clang's remarks say of it after."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tuner.codegen import clang
from tuner.codegen.halide.lowered import renamed
from tuner.codegen.portfolio import GENERATOR, Portfolio
from tuner.conformance.patience import PATIENCE_S
from tuner.errors import CandidateError
from tuner.kernels import find_kernel
from tuner.problem.contract import Contract
from tuner.problem.target import find_target
from tuner.records.candidate import Candidate
from tuner.records.outcome import Outcome
from tuner.space import Config

TARGET = find_target("hexagon-v66")
LOOPS = """\
func f (image, out) {
let out.stride.1 = (int32)_halide_buffer_get_stride((struct halide_buffer_t *)out.buffer, 1)
produce out {
 for (out.s0.y.tile, 0, 16) {
  allocate rows[uint16 * 512] in Stack
  let t7 = out.s0.y.tile * out.stride.1
  rows[ramp(t7, 1, 64)] = max(image[ramp(0, 1, 64)], x64((uint16)3))
 }
}
}
"""


@pytest.mark.parametrize(("old", "new"), [("y.tile", "y.yo"), ("t7", "t12"), ("rows", "sums$1")])
def test_names_that_statements_declare_do_not_matter(old, new):
    assert old in LOOPS
    assert renamed(LOOPS.replace(old, new)) == renamed(LOOPS)


@pytest.mark.parametrize(
    ("old", "new"),
    [("max", "min"), ("in Stack", "in VTCM"), ("uint16", "int16"), ("image", "other")],
)
def test_all_other_names_do(old, new):
    assert old in LOOPS
    assert renamed(LOOPS.replace(old, new)) != renamed(LOOPS)


def test_two_names_do_not_become_one():
    assert renamed(LOOPS.replace("ramp(t7", "ramp(out.stride.1")) != renamed(LOOPS)


def remark(kind, name, *parts):
    args = "".join(f"  - String:          '{part}'\n" for part in parts)
    head = f"--- !{kind}\nPass:            {name}\nName:            x\nFunction:        f\n"
    return f"{head}Args:\n{args}...\n"


UNROLLED = remark("Passed", "loop-unroll", "unrolled loop by a factor of ", "4")
NOT_TAKEN = remark("Analysis", "pipeliner", "Not a single basic block: ", "3")
TOO_LARGE = "Minimal Initiation Interval too large: "
ALL, TWO = {"default", "off", "deep"}, {"default", "deep"}


def found(interval, stages):
    parts = ("Schedule found with Initiation Interval: ", interval, ", MaxStageCount: ", stages)
    return remark("Analysis", "pipeliner", *parts)


@pytest.mark.parametrize(
    ("chosen", "remarks", "pipeliners"),
    [
        ("default", NOT_TAKEN, ALL),
        ("deep", NOT_TAKEN, ALL),
        ("off", "", set()),
        ("default", found(9, 2), TWO),
        ("deep", found(27, 3), TWO),
        ("deep", found(28, 1), set()),
        ("deep", found(9, 4), set()),
        ("deep", found(56, 0), TWO),
        ("default", remark("Analysis", "pipeliner", TOO_LARGE, 56, " > ", 27), set()),
        ("default", remark("Analysis", "pipeliner", TOO_LARGE, 144, " > ", 27), TWO),
        ("default", remark("Analysis", "pipeliner", "Too many stages in schedule: ", 4), set()),
    ],
)
def test_the_pipeliner_s_remarks_say_which_choices_differ(chosen, remarks, pipeliners):
    config = Config({"llvm_unroll": "on", "llvm_pipeliner": chosen})
    alike = clang.alike((UNROLLED + remarks).encode(), config)
    assert alike.get("llvm_pipeliner", set()) == pipeliners
    assert "llvm_unroll" not in alike
    assert clang.alike(remarks.encode(), config)["llvm_unroll"] == {"on", "off"}
    forbidden = Config({**config, "llvm_unroll": "off"})
    assert "llvm_unroll" not in clang.alike(remarks.encode(), forbidden)


def deeper(remarks_of_deep, remarks_of_default=""):
    """The choices for which an object was made, and what is told of the default one."""
    asked = []

    def made(config):
        asked.append(config["llvm_pipeliner"])
        remarks = remarks_of_deep if asked[-1] == "deep" else remarks_of_default
        return {"object": asked[-1].encode(), clang.REMARKS: remarks.encode()}

    files, alike = clang.compiled_once(Config({"llvm_pipeliner": "default"}), made)
    assert files == {"object": asked[-1].encode()}
    return asked, alike.get("llvm_pipeliner", set())


def test_the_default_pipeliner_is_compiled_where_a_deep_one_found_more():
    assert deeper(NOT_TAKEN) == (["deep"], ALL)
    assert deeper(found(9, 2)) == (["deep"], TWO)
    assert deeper(found(28, 1), remark("Analysis", "pipeliner", TOO_LARGE, 56, " > ", 27)) == (
        ["deep", "default"],
        set(),
    )


def test_the_default_pipeliner_is_compiled_where_a_deep_one_fails():
    def made(config):
        if config["llvm_pipeliner"] == "deep":
            raise CandidateError(Outcome.TIMEOUT, "compiling took more than 20 s")
        return {"object": b"", clang.REMARKS: b""}

    assert clang.compiled_once(Config({"llvm_pipeliner": "default"}), made)[0] == {"object": b""}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "generators", "params"),
    [
        ("conv2d_u8", ("intrinsics",), {"height": 8, "width": 8, "channels_in": 16}),
        ("rgb_to_gray_u8", ("hvx", "halide-clang"), {"width": 256, "height": 16}),
    ],
)
def test_what_is_told_to_be_one_object_is_what_each_choice_makes(
    kernel, generators, params, monkeypatch
):
    """Before a compilation, by identities, or after it, by remarks: each is compiled as it is."""
    found = find_kernel(kernel)
    problem = found.problem(params, Contract.STATIC, TARGET)
    space, dice = Portfolio.space(found, problem), random.Random(kernel)
    configs = [space.sample(dice) for _ in range(400)]
    chosen = [c for c in configs if c[GENERATOR] in generators and "llvm_pipeliner" in c][:6]
    told = {True: 0, False: 0}
    with Portfolio(1, time_limit_s=PATIENCE_S) as generator:
        artifacts = {}
        for config in chosen:
            one = Candidate(problem, Config({**config, "llvm_pipeliner": "default"}), "portfolio")
            artifacts[one] = generator.compile(one)
        monkeypatch.setattr(clang, "compiled_once", as_it_is)
        for one, artifact in artifacts.items():
            assert artifact.identity in (None, generator.identity(one))
            alike = artifact.alike.get("llvm_pipeliner", {"default"})
            told[len(alike) > 1] += 1
            for choice in alike:
                other = replace(one, config=Config({**one.config, "llvm_pipeliner": choice}))
                assert generator.compile(other).digest == artifact.digest, (one.config, choice)
    assert told[True]  # or there is nothing to tell


def as_it_is(config, made):
    files = made(config)
    del files[clang.REMARKS]
    return files, {}
