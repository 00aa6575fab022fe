"""What the contained process finds in pipelines, and what it refuses to tune."""

from __future__ import annotations

import base64
import copy
import json
import re
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.halide.uploads import Analysis, SizeParam, analyse_pipeline, reference_outputs
from tuner.errors import UserError
from tuner.space.derivation import BufferFacts, PipelineFacts, StageFacts, UpdateFacts
from tuner.space.derivation.facts import ScalarFacts
from tuner.uploaded import PipelineKernel

_FACTS = PipelineFacts(
    (BufferFacts("a", "uint8", (-1,), (10,)),),
    (BufferFacts("f", "uint8", (0,), (8,), loose=1),),
    (
        StageFacts(
            name="f",
            dimensions=("x",),
            extents=(8,),
            bits=8,
            narrowest_bits=8,
            widest_bits=8,
            reads=(),
            clamped=False,
            operations=2,
            updates=(UpdateFacts((), (("r$x", 4),), scans=True, combines="", dot=False),),
            divides=("*",),
            strided=(("x", 1),),
            is_output=True,
            inputs=("a",),
        ),
    ),
    (ScalarFacts("s", "int8", -3),),
)
_SIZE = SizeParam("x", 8, "extent", 1, 65536, is_extent=True, is_optional=False)
GOOD: dict[str, Any] = json.loads(
    json.dumps({**asdict(_FACTS), "params": [asdict(_SIZE)], "overflow": ""})
)

ENDS = ("least", "most")
PREAMBLE = """
import base64, sys
import halide as hl
x, y, u = hl.Var("x"), hl.Var("y"), hl.Var("u")
image, gain = hl.ImageParam(hl.UInt(8), 2, "image"), hl.Param(hl.UInt(8), "gain")
floats, real = hl.ImageParam(hl.Float(32), 2, "floats"), hl.Param(hl.Float(32), "real")
f, g = hl.Func("f"), hl.Func("g")
f[x, y] = image[x, y] + hl.u8(1)
g[x, y] = f[x, y] + f[x + 1, y]
"""
REFUSED = {
    "many": (
        (
            "hs = [hl.Func(f'h{n}') for n in range(16)]\n"
            "for n, h in enumerate(hs): h[x, y] = f[x, y] + n\nout = hl.Pipeline(hs)"
        ),
        "17 inputs, scalars and outputs; 16 at most",
    ),
    "float": ("h = hl.Func('h')\nh[x, y] = floats[x, y]\nout = hl.Pipeline(h)", "float32"),
    "wide": (
        "h = hl.Func('h')\nh[x, y] = hl.u64(f[x, y]) << hl.u64(40)\nout = hl.Pipeline(h)",
        "output h is of uint64; integers of 8, 16 or 32 bits",
    ),
}


def made(program: str) -> bytes:
    """A pipeline, serialized in a process of its own."""
    write = "\nsys.stdout.write(base64.b64encode(hl.serialize_pipeline(out)).decode())"
    command = [sys.executable, "-c", PREAMBLE + program + write]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return base64.b64decode(done.stdout)


def test_extents_readers_and_edges_of_a_stencil():
    facts = analyse_pipeline(unseen_pipeline("sharpen"), SIZES["sharpen"]).facts
    (output,) = facts.outputs
    assert output.extents == (256, 48)
    (image,) = facts.inputs
    assert (image.extents, image.free) == ((256, 48), (0, 1))
    across, blurred, sharp = facts.stages
    assert (across.name, across.extents, across.bits) == ("across", (256, 50), 16)
    assert across.clamped
    assert (across.narrowest_bits, across.widest_bits) == (8, 16)
    assert dict(blurred.reads) == {"across": 3}
    assert [stage.inputs for stage in facts.stages] == [("image",), (), ("image",)]
    assert dict(sharp.reads) == {"blurred": 1}


def test_stages_have_their_own_extents_in_whatever_order_halide_computes_them():
    facts = analyse_pipeline(
        made(
            "two, one = hl.Func('part_2'), hl.Func('part_1')\n"
            "r = hl.RDom([(0, 3)])\n"
            "two[x] = image[x, 0]\n"
            "one[x] = image[x, 1]\n"
            "one[x] += image[x + r, 2]\n"
            "h = hl.Func('h')\nh[x] = two[x] + one[2 * x]\nout = hl.Pipeline(h)"
        ),
        {"x": 100},
    ).facts
    assert {stage.name: stage.extents for stage in facts.stages} == {
        "part_2": (100,),
        "part_1": (199,),
        "h": (100,),
    }
    assert [rvar[1] for stage in facts.stages for one in stage.updates for rvar in one.rvars] == [3]


@pytest.mark.slow
def test_reductions_scans_and_products_are_told():
    (total, _) = analyse_pipeline(unseen_pipeline("column_mean"), {"x": 512}).facts.stages
    (update,) = total.updates
    assert update.rvars == (("rows$x", 64),)
    assert (update.pure, update.combines, update.scans) == (("x",), "sum", False)
    (sums, _) = analyse_pipeline(unseen_pipeline("running_sum"), SIZES["running_sum"]).facts.stages
    (update,) = sums.updates
    assert (update.pure, update.scans) == (("x",), True)
    (sums, _) = analyse_pipeline(unseen_pipeline("dense"), SIZES["dense"]).facts.stages
    assert sums.updates[0].dot
    (counts, _) = analyse_pipeline(unseen_pipeline("histogram"), SIZES["histogram"]).facts.stages
    assert counts.updates[0].pure == ()


@pytest.mark.slow
def test_what_vectors_cannot_do_is_told():
    def last(name):
        return analyse_pipeline(unseen_pipeline(name), SIZES[name]).facts.stages

    assert last("ninths")[-1].divides == ("*",)
    (faded, _) = last("decay")
    assert [update.backwards for update in faded.updates] == [False, True]
    assert [stage.skipped for stage in last("quarters")] == [True, False]
    (out,) = last("pixels")
    assert out.picks
    assert dict(out.strided) == {"x": 2, "y": 2}
    (best, out) = last("strongest")
    assert (best.values, best.bits, out.divides) == (2, 32, ())
    assert [stage.divides for stage in last("requantized")] == [("*",)]
    assert [stage.looks_up for stage in last("tone_chain")] == [True, False, True]


@pytest.mark.slow
@pytest.mark.parametrize("kept", [True, False])
def test_what_indices_name_is_seen(kept):
    """Halide names what several of them are made of."""
    place = "hl.clamp(2 * x + 3, 0, 63)" if kept else "2 * x + 3"
    text = f"at = {place}\nh = hl.Func('h')\nh[x, y] = image[at, y] ^ image[at, y + 1]\n"
    (out,) = analyse_pipeline(made(f"{text}out = hl.Pipeline(h)"), {"x": 64}).facts.stages
    assert (out.ended, out.clamped, dict(out.strided)) == (kept, False, {"y": 2})


@pytest.mark.slow
def test_scalars_have_values_and_decide_what_is_read():
    data = made(
        "h = hl.Func('h')\nh[x, y] = image[x + hl.i32(gain), y] * gain\nout = hl.Pipeline(h)"
    )
    found = analyse_pipeline(data, {"x": 64, "y": 4, "gain": 200})
    (image,) = found.facts.inputs
    assert image.extents == (264, 4)
    (gain,) = (param for param in found.params if param.name == "gain")
    assert (gain.default, gain.minimum, gain.maximum, gain.is_extent) == (1, 0, 255, False)
    pixels = np.arange(4 * 264, dtype=np.uint8).reshape(4, 264)
    ((output,),) = reference_outputs(data, found.facts, [[pixels]])
    assert np.array_equal(output, pixels[:, 200:] * np.uint8(200))


@pytest.mark.slow
def test_a_pipeline_of_scalars_alone_is_read():
    data = made("h = hl.Func('h')\nh[x, y] = gain + hl.u8(x)\nout = hl.Pipeline(h)")
    found = analyse_pipeline(data, {"x": 64, "y": 4}).facts
    ((output,),) = reference_outputs(data, found, [[]])
    assert np.array_equal(output[3], np.arange(64) + found.scalars[0].value)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["UInt(8)", "Int(8)", "Int(16)", "UInt(16)", "Int(32)"])
@pytest.mark.parametrize(
    "clamped",
    [
        "hl.clamp({value}, low, high)",
        "hl.max(low, hl.min(high, {value}))",
        "hl.min(hl.max({value}, low), high)",
    ],
)
def test_bounds_that_nobody_chose_leave_most_values_alone(dtype, clamped):
    value = f"hl.cast(hl.{dtype}, image[x, y])"
    data = made(
        f"low, high = hl.Param(hl.{dtype}, 'low'), hl.Param(hl.{dtype}, 'high')\n"
        f"h = hl.Func('h')\nh[x, y] = {clamped.format(value=value)} * hl.cast(hl.{dtype}, gain)\n"
        "out = hl.Pipeline(h)"
    )
    found = analyse_pipeline(data, {"x": 64, "y": 4})
    assert {one.name: one.value for one in found.facts.scalars}["gain"] == 1
    pixels = np.arange(256, dtype=np.uint8).reshape(4, 64)
    ((output,),) = reference_outputs(data, found.facts, [[pixels]])
    assert len(np.unique(output)) >= 64


WINDOWS = """
begin, width, step = (hl.Param(hl.Int(32), n) for n in ("begin", "width", "step"))
r = hl.RDom([(begin, width)], "r")
r.where(x * step + r.x < image.width())
near = hl.Func("near")
near[x, y] = image[hl.clamp(x, 0, image.width() - 1), y]
h = hl.Func("h")
h[x, y] = hl.u8(0)
h[x, y] = hl.max(h[x, y], near[x * step + r.x, y])
out = hl.Pipeline(h)
"""


@pytest.mark.slow
def test_windows_are_as_long_as_scalars_and_as_far_apart():
    data, rng = made(WINDOWS), np.random.default_rng(6)
    for _ in range(4):
        begin, width, step = map(int, rng.integers((0, 1, 1), (3, 6, 4)))
        sizes = {"x": 20, "y": 3, "image_0": 40, "begin": begin, "width": width, "step": step}
        facts = analyse_pipeline(data, sizes).facts
        near, greatest = facts.stages
        assert greatest.updates[0].rvars == (("r$x", width),)
        assert near.extents == (19 * step + width, 3)
        image = rng.integers(0, 256, (3, 40), np.uint8)
        ((output,),) = reference_outputs(data, facts, [[image]])
        for at in range(20):
            first = at * step + begin
            window = image[:, min(first, 40) : at * step + begin + width]
            assert (output[:, at] == window.max(axis=1, initial=0)).all()


MEAN = """
begin, width, every = (hl.Param(hl.Int(32), n) for n in ("begin", "width", "every"))
r = hl.RDom([(begin, width)], "r")
spread, total, h = hl.Func("spread"), hl.Func("total"), hl.Func("h")
spread[x, y] = image[x / every, y]
total[x, y] = hl.u32(0)
total[x, y] += hl.u32(spread[x + r.x, y])
h[x, y] = hl.u8((total[x, y] + hl.u32(width / 2)) / hl.u32(width))
out = hl.Pipeline(h)
"""


@pytest.mark.slow
def test_inputs_reach_as_far_as_scalars_say():
    data, rng = made(MEAN), np.random.default_rng(7)
    for _ in range(4):
        begin, width, every = map(int, rng.integers((0, 1, 1), (9, 9, 4)))
        sizes = {"x": 16, "y": 2, "begin": begin, "width": width, "every": every}
        facts = analyse_pipeline(data, sizes).facts
        (image,), (spread, _, _) = facts.inputs, facts.stages
        assert image.extents == ((15 + begin + width - 1) // every + 1, 2)
        assert spread.extents == (15 + width, 2)
        pixels = rng.integers(0, 256, image.extents[::-1], np.uint8)
        ((output,),) = reference_outputs(data, facts, [[pixels]])
        wide = pixels.repeat(every, axis=1).astype(np.int64)
        for at in range(16):
            window = wide[:, at + begin : at + begin + width]
            assert (output[:, at] == (window.sum(1) + width // 2) // width).all()


PRODUCT = """
left, right = hl.ImageParam(hl.UInt(8), 2, "left"), hl.ImageParam(hl.UInt(8), 2, "right")
depth = left.dim(0).extent() / 4 * 4
r = hl.RDom([(0, depth)], "r")
sums, h = hl.Func("sums"), hl.Func("h")
sums[x, y] = hl.u32(0)
sums[x, y] += hl.u32(left[r.x, y]) * hl.u32(right[x, r.x])
h[x, y] = hl.u8(sums[x, y] >> 8)
out = hl.Pipeline(h)
"""


@pytest.mark.slow
def test_an_extent_follows_that_of_another_input():
    found = analyse_pipeline(made(PRODUCT), {"x": 32, "y": 8, "left_0": 22})
    extents = {buffer.name: buffer.extents for buffer in found.facts.inputs}
    assert extents == {"left": (22, 8), "right": (32, 20)}
    assert found.facts.stages[0].updates[0].rvars == (("r$x", 20),)
    assert {one.name for one in found.params if one.is_extent} == {"x", "y", "left_0"}


SCALED = """
other = hl.ImageParam(hl.UInt(8), 2, "other")
names = ("factor", "more", "shift", "zero")
kinds = (hl.Int(16), hl.Int(32), hl.UInt(16), hl.UInt(8))
factor, more, shift, zero = (hl.Param(kind, name) for name, kind in zip(names, kinds))
h = hl.Func("h")
one = hl.widening_mul((hl.i16(image[x, y]) - hl.i16(zero)) << 6, factor)
two = hl.rounding_mul_shift_right(hl.i32(other[x, y]) << 12, more, 31)
h[x, y] = hl.u8_sat(hl.rounding_shift_right(hl.i16_sat((one + two) >> 8), hl.min(shift, 15)))
out = hl.Pipeline(h)
"""


@pytest.mark.slow
def test_outputs_follow_each_input_at_default_scalars():
    data, rng = made(SCALED), np.random.default_rng(8)
    found = analyse_pipeline(data, {"x": 64, "y": 8})
    defaults = {one.name: one.default for one in found.params}
    assert {one.name: one.value for one in found.facts.scalars}.items() <= defaults.items()
    one, two, three = rng.integers(0, 256, (3, 8, 64), np.uint8)
    ((before,),) = reference_outputs(data, found.facts, [[one, two]])
    for inputs in ([three, two], [one, three]):
        ((after,),) = reference_outputs(data, found.facts, [inputs])
        assert len(np.unique(after.astype(int) - before)) > 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "has_vectors"),
    [
        ("hl.i32_sat((hl.i64(p) * q + hl.i64(1 << 30)) >> hl.i64(31))", True),
        ("hl.i32((hl.i64(p) + q) >> hl.i64(1))", True),
        ("hl.i32((hl.i64(p) * q) >> hl.i64(20))", False),
    ],
)
def test_64_bits_on_the_way_have_vectors_where_hvx_has_instructions(value, has_vectors):
    words = "a, b = (hl.ImageParam(hl.Int(32), 2, n) for n in 'ab')\np, q = a[x, y], b[x, y]\n"
    data = made(f"{words}h = hl.Func('h')\nh[x, y] = {value}\nout = hl.Pipeline(h)")
    (stage,) = analyse_pipeline(data, {}).facts.stages
    assert stage.divides == (() if has_vectors else ("*",))


@pytest.mark.slow
def test_sums_of_64_bits_have_no_vectors():
    data = made(
        "s, h, r = hl.Func('s'), hl.Func('h'), hl.RDom([(0, 9)], 'r')\ns[x, y] = hl.i64(0)\n"
        "s[x, y] += hl.i64(image[x + r.x, y]) * hl.i64(image[x, y]) << hl.i64(20)\n"
        "h[x, y] = hl.u8(s[x, y] >> hl.i64(28))\nout = hl.Pipeline(h)"
    )
    sums, last = analyse_pipeline(data, {"x": 64, "y": 4}).facts.stages
    assert (sums.bits, sums.divides, last.divides) == (64, ("*",), ("*",))


TRANSFORM = """
block, basis = (hl.ImageParam(hl.Int(16), 2, n) for n in ("block", "basis"))
r, sums = hl.RDom([(0, 8)], "r"), hl.Func("sums")
sums[x, y] = 0
sums[x, y] += hl.i32(block[r.x, y]) * hl.i32(basis[x, r.x])
out = hl.Pipeline(sums)
"""


@pytest.mark.slow
def test_overflow_is_told_with_ranges_that_exclude_it():
    data = made(TRANSFORM)
    kernel = PipelineKernel("transform", data, partial(_analysed, data))
    whole = kernel.workload({"x": 8, "y": 8}).params
    told = kernel.overflow(whole)
    assert "the stage sums may overflow in its update 0" in told
    ranges = {name: int(value) for name, value in re.findall(r"-p (\w+)=(-?\d+)", told)}
    assert ranges.keys() == {f"{name}_{end}" for name in ("block", "basis") for end in ENDS}
    params = kernel.workload({"x": 8, "y": 8, **ranges}).params
    assert not kernel.overflow(params)
    assert kernel.overflow({**params, "block_least": 4 * ranges["block_least"]})
    extremes = [np.full((8, 8), end, np.int16) for end in (-(1 << 15), (1 << 15) - 1)]
    drawn = kernel.inputs(params, np.random.default_rng(9))
    for basis, block in (drawn, kernel.allowed_inputs(params, extremes)):
        for name, values in (("basis", basis), ("block", block)):
            assert ranges[f"{name}_least"] <= values.min() <= values.max()
            assert values.max() <= ranges[f"{name}_most"]


@pytest.mark.slow
def test_scalars_may_be_declared_too():
    data = made(
        "s, h = hl.Param(hl.Int(32), 's'), hl.Func('h')\n"
        "h[x, y] = hl.i32(image[x, y]) * s\nout = hl.Pipeline(h)"
    )
    sizes = {"x": 64, "y": 4, "s": 9}
    assert not analyse_pipeline(data, sizes).overflow  # at that value, which is all it is
    told = analyse_pipeline(data, {**sizes, "s_most": 1 << 24}).overflow
    ranges = {name: int(value) for name, value in re.findall(r"-p (\w+)=(-?\d+)", told)}
    assert ranges.keys() == {"s_least", "s_most"}
    found = analyse_pipeline(data, {**sizes, **ranges})
    assert not found.overflow
    assert found.facts.scalars[0].ends == tuple(ranges.values())
    with pytest.raises(UserError, match="its scalar s is 9, and declared from 10 to"):
        analyse_pipeline(data, {**sizes, "s_least": 10})


def _analysed(data, sizes, is_open):
    return analyse_pipeline(data, dict(sizes), is_open=is_open)


@pytest.mark.slow
@pytest.mark.parametrize(("program", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_tuned_is_refused_with_the_reason(program, reason):
    with pytest.raises(UserError, match=reason) as refused:
        analyse_pipeline(made(program), {})
    assert "cannot be tuned" in refused.value.message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("outputs", 0, "extents"), [9]),
        (("scalars", 0, "dtype"), "int64"),
        (("inputs", 0, "mins"), [-(1 << 40)]),
        (("stages", 0, "reads"), [["f", 1]]),
        (("stages", 0, "updates", 0, "combines"), "product"),
        (("stages",), []),
    ],
    ids=str,
)
def test_an_analysis_that_no_pipeline_gives_is_refused(path, value):
    data = copy.deepcopy(GOOD)
    assert Analysis.from_dict(json.loads(json.dumps(data)))
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r"\w"):
        Analysis.from_dict(data)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "divides"),
    [
        ("image[x / 3, y / 4]", ("x",)),
        ("hl.u8((hl.u32(image[x, y]) + hl.u32(gain)) / hl.u32(9))", ("*",)),
        ("hl.u8(hl.u16(image[x, y]) / hl.u16(9))", ()),
        ("image[x % (2 * image.width()), y]", ()),
    ],
)
def test_divisions_by_reciprocals_of_64_bits_are_found(value, divides):
    data = made(f"h = hl.Func('h')\nh[x, y] = {value}\nout = hl.Pipeline(h)")
    (stage,) = analyse_pipeline(data, {}).facts.stages
    assert stage.divides == divides
