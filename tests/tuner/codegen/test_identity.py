"""What is known of an object before it is compiled, and what clang's remarks say of it after."""

from __future__ import annotations

import pytest

from tuner.codegen import clang
from tuner.codegen.halide.lowered import renamed
from tuner.space import Config

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
