"""What the contained process finds in pipelines, and what it refuses to tune."""

from __future__ import annotations

import base64
import copy
import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.rig.unseen_pipelines import SIZES, unseen_pipeline
from tuner.codegen.halide.uploads import Analysis, SizeParam, analyse_pipeline, reference_outputs
from tuner.codegen.halide.uploads.expressions import divided
from tuner.errors import UserError
from tuner.space.derivation import BufferFacts, PipelineFacts, StageFacts, UpdateFacts
from tuner.space.derivation.facts import ScalarFacts

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
GOOD: dict[str, Any] = json.loads(json.dumps({**asdict(_FACTS), "params": [asdict(_SIZE)]}))

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
        (
            "h, w = hl.Func('h'), hl.Func('w')\nw[x, y] = hl.u64(f[x, y]) * hl.u64(f[x, y])\n"
            "h[x, y] = hl.u8(w[x, y] >> hl.u64(5))\nout = hl.Pipeline(h)"
        ),
        "64 bits",
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


@pytest.mark.parametrize(
    ("text", "dividends"),
    [
        ("uint8((f(x) + g(y))/(uint32)9)", ["(f(x) + g(y))"]),
        ("f(x/3, y/4)", ["x"]),
        ("(x - im.min.0) % (2*im.extent.0)", []),
    ],
)
def test_divisions_by_reciprocals_of_64_bits_are_found(text, dividends):
    assert list(divided(text)) == dividends
