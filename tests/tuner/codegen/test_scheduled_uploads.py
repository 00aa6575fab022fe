"""What a schedule leaves of the pipeline that it hangs on: its algorithm, word for word."""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys

import numpy as np

from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.program import program_of
from tuner.program.interpretation import interpreted

DIRECTIVES = (
    "f.compute_root().memoize()",
    "f.compute_root().store_in(hl.MemoryType.VTCM).async_().ring_buffer(2)",
    "f.compute_at(g, y).store_root().fold_storage(y, 4)",
    "f.compute_root().align_storage(x, 128).reorder_storage(y, x)",
    "f.in_(g).compute_root().vectorize(x, 64)",
    "f.clone_in(g).compute_at(g, y)",
    "g.bound(x, 0, hl.i32(hl.sin(hl.f32(image.width()))))",
    "g.align_bounds(x, 128).output_buffer().store_in(hl.MemoryType.VTCM)",
    "g.output_buffer().dim(0).set_extent(image.dim(0).extent() - 4)",
    "g.output_buffer().set_host_alignment(128).dim(1).set_stride(image.dim(1).stride())",
    "g.set_estimate(x, 0, 64).set_estimate(y, 0, image.height())",
    "g.split(x, xo, xi, 64, hl.TailStrategy.RoundUp).vectorize(xi).unroll(xo, 2)",
    "g.tile(x, y, xo, yo, xi, yi, 64, 4).parallel(yo).partition(xo, hl.Partition.Never)",
    "g.fuse(x, y, xo).parallel(xo).prefetch(image, xo, xo, 2)",
    "g.hexagon(y)",
    "g.update().reorder(y, r.x, x).unroll(r.x)",
    "g.update().split(r.x, rxo, rxi, 2).atomic().vectorize(rxi)",
    "g.update().allow_race_conditions().vectorize(x, 64)",
    "g.specialize(hl.sin(hl.f32(image.width())) > 0).vectorize(x, 128)",
    "g.specialize(g.output_buffer().dim(0).extent() % 128 == 0).vectorize(x, 128)",
    "f.trace_loads().trace_stores().trace_realizations().add_trace_tag('seen')",
    "h.compute_root().compute_with(f.compute_root(), y)",
)
PROGRAM = """
import base64, json, os, sys
import halide as hl

def serialized(directives):
    reading, writing = os.pipe()
    if not os.fork():  # Halide counts the names that a process has used
        x, y = hl.Var("x"), hl.Var("y")
        xo, xi, yo, yi = map(hl.Var, ("xo", "xi", "yo", "yi"))
        rxo, rxi = hl.RVar("rxo"), hl.RVar("rxi")
        image, r = hl.ImageParam(hl.UInt(8), 2, "image"), hl.RDom([(0, 4)], "r")
        f, g, h = hl.Func("f"), hl.Func("g"), hl.Func("h")
        f[x, y] = hl.u16(image[x, y]) * hl.u16(3)
        h[x, y] = hl.u16(image[x, y + 1])
        g[x, y] = h[x, y]
        g[x, y] += f[x + r, y]
        for directive in directives:
            exec(directive)
        with os.fdopen(writing, "wb") as file:
            file.write(hl.serialize_pipeline(hl.Pipeline(g)))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        return base64.b64encode(file.read()).decode()

json.dump([serialized(one) for one in json.load(sys.stdin)], sys.stdout)
"""


def serialized(schedules: list[list[str]]) -> list[bytes]:
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(
        command, input=json.dumps(schedules), check=True, capture_output=True, text=True
    )
    return [base64.b64decode(one) for one in json.loads(done.stdout)]


def test_a_schedule_leaves_the_algorithm() -> None:
    rng = random.Random(7)
    apart = [f for f in DIRECTIVES if f.startswith("f.")], [g for g in DIRECTIVES if g[0] == "g"]
    together = [[rng.choice(some) for some in apart] for _ in range(8)]
    schedules = [*([one] for one in DIRECTIVES), *together]
    plain, *scheduled = serialized([[], *schedules])
    algorithm, inputs = program_of(plain), checked(plain).inputs
    for directives, data in zip(schedules, scheduled, strict=True):
        assert data, directives
        assert data != plain, directives
        assert program_of(data) == algorithm, directives
        assert checked(data).inputs == inputs, directives


def test_partial_sums_are_read_as_the_algorithm() -> None:
    whole, apart = serialized([[], ["g.update().rfactor(r.x, hl.Var('u')).compute_root()"]])
    sizes = {"g_extent_0": 24, "g_extent_1": 5}
    images = np.random.default_rng(3).integers(0, 256, (6, 27), np.uint8)
    found = []
    for data in (whole, apart):
        program = program_of(data)
        (values,) = interpreted(program, sizes, {"image": images}, {}).values()
        found.append((len(program.stages), values))
    assert found[1][0] == found[0][0] + 1
    assert (found[0][1] == found[1][1]).all()
