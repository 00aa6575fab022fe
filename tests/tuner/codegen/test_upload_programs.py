"""Serialized pipelines are read as programs that mean the same, and written so for Halide."""

from __future__ import annotations

from collections.abc import Mapping

import halide as hl
import numpy as np
import pytest

from tests.rig import stencils, unseen_pipelines
from tests.rig.arithmetic_pipelines import EXPRESSIONS, arithmetic_pipeline
from tests.rig.random_pipelines import random_pipeline
from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import checked
from tuner.codegen.halide.uploads.pipelines import pipeline_of
from tuner.codegen.halide.uploads.program import program_of
from tuner.kernels import HalidePipeline
from tuner.program.bounds import Bounds, bounded
from tuner.program.interpretation import interpreted
from tuner.program.loops import Program
from tuner.program.overflow import overflows
from tuner.program.parsing import parsed
from tuner.program.printing import printed

WIDTH, HEIGHT, OTHERS = 48, 20, 4
SCALAR = 3
c, k, x, y = (hl.Var(name) for name in "ckxy")


def serialized(output: hl.Func) -> bytes:
    return bytes(hl.serialize_pipeline(hl.Pipeline(output)))


def sizes_of(program: Program) -> dict[str, int]:
    usual = {"0": WIDTH, "1": HEIGHT}
    return {name: usual.get(name.rpartition("_")[2], OTHERS) for name in program.sizes}


def inputs_of(bounds: Bounds) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        one.name: rng.integers(
            one.low,
            one.high,
            [axis.high - axis.low + 1 for axis in bounds.boxes[one.name]],
            one.type.dtype,
            endpoint=True,
        )
        for one in bounds.program.inputs
    }


def opened(data: bytes) -> HalidePipeline:
    """The pipeline as Halide itself reads it."""
    found = hl.deserialize_parameters(data)
    images = {
        n: hl.ImageParam(p.type(), p.dimensions(), n) for n, p in found.items() if p.is_buffer()
    }
    scalars = {n: hl.Param(p.type(), n) for n, p in found.items() if n not in images}
    own = {name: param.parameter() for name, param in {**images, **scalars}.items()}
    output, *more = hl.deserialize_pipeline(data, own).outputs()
    return HalidePipeline([*images.values()], output, {}, [*scalars.values()], more)


def require_same(data: bytes) -> None:
    """That the program has the values that Halide's code for this machine computes, of the pipeline
    and of what is written of it."""
    program = program_of(data)
    assert parsed(printed(program)) == program
    bounds = bounded(program, sizes_of(program))
    inputs, scalars = inputs_of(bounds), {one.name: SCALAR for one in program.scalars}
    found = interpreted(program, bounds.sizes, inputs, scalars)

    def buffer(values: np.ndarray, name: str) -> hl.Buffer:
        made = hl.Buffer(values)
        made.set_min([axis.low for axis in reversed(bounds.boxes[name])])
        return made

    places = {name: program.stage_of(name).name for name in found}
    for made in (opened(data), pipeline_of(checked(data))):
        for param, (name, values) in zip(made.inputs, inputs.items(), strict=True):
            param.set(buffer(values, name))
        for param in made.scalars:
            param.set(SCALAR)
        wanted = {name: np.zeros_like(values) for name, values in found.items()}
        buffers = [buffer(values, places[name]) for name, values in wanted.items()]
        pipeline = hl.Pipeline(list(made.outputs))
        for number in range(len(checked(data).funcs)):
            pipeline.get_func(number).compute_root()
        pipeline.realize(buffers)
        for name, values in wanted.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)


def require_names(data: bytes) -> None:
    """That what is written has the names by which an author's schedule goes."""
    contents = checked(data)
    made = pipeline_of(contents)
    assert {*made.stages} == {*contents.funcs}
    for name, func in contents.funcs.items():
        stage = made.stages[name]
        assert tuple(one.name() for one in stage.args()) == func.dimensions
        for number, update in enumerate(func.updates):
            for reduction, *_ in update.rvars:
                assert reduction in made.reductions
                stage.update(number).unroll(hl.RVar(reduction))  # or Halide does not find it


@pytest.mark.parametrize("name", ["histogram", "dense"])
def test_schedules_find_their_stages_and_loops(name: str) -> None:
    require_names(serialized(getattr(unseen_pipelines, name)(hl)))


@pytest.mark.parametrize("apart", ["outer", "inner", "r.y"])
def test_partial_sums_keep_their_names(apart: str) -> None:
    image, sums = hl.ImageParam(hl.UInt(8), 2, "image"), hl.Func("sums")
    r = hl.RDom([(0, 4), (0, 8)], "r")
    sums[x, y] = hl.u16(0)
    sums[x, y] += hl.u16(image[x + r.x, y + r.y])
    outer, inner = hl.RVar("outer"), hl.RVar("inner")
    parts = {"outer": outer, "inner": inner, "r.y": r.y}
    sums.update().split(r.x, outer, inner, 2).rfactor(parts[apart], c)
    data = serialized(sums)
    require_names(data)
    require_same(data)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_intrinsic_has_a_meaning(name: str) -> None:
    require_same(arithmetic_pipeline(name))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_pipelines_mean_the_same(seed: int) -> None:
    require_same(random_pipeline(seed)[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mirrored", "transposed", "toned", "vignette"])
def test_stencils_mean_the_same(name: str) -> None:
    require_same(serialized(getattr(stencils, name)(hl)))


@pytest.mark.parametrize(
    "name",
    [
        "histogram",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("decay", "running_sum", "dense", "strongest", "features", "exposure")
        ),
    ],
)
def test_other_pipelines_mean_the_same(name: str) -> None:
    require_same(serialized(getattr(unseen_pipelines, name)(hl)))


def evaluated(output: hl.Func, sizes: Mapping[str, int], scalars: Mapping[str, int], **inputs):
    program = program_of(serialized(output))
    (found,) = interpreted(program, sizes, inputs, scalars).values()
    return found


def test_sums_go_as_far_as_an_input() -> None:
    """A product of matrices: one extent is that of an input, and of no output."""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 256, shape, np.uint8) for shape in ((5, 7), (7, 6)))
    left, right = hl.ImageParam(hl.UInt(8), 2, "left"), hl.ImageParam(hl.UInt(8), 2, "right")
    r, out = hl.RDom([(0, left.dim(0).extent())], "r"), hl.Func("out")
    out[x, y] = hl.u32(0)
    out[x, y] += hl.u32(left[r, y]) * hl.u32(right[x, r])
    sizes = {"out_extent_0": 6, "out_extent_1": 5, "left_extent_0": 7}
    found = evaluated(out, sizes, {}, left=a, right=b)
    assert (found == a.astype(np.uint32) @ b.astype(np.uint32)).all()


def test_windows_are_where_scalars_say() -> None:
    """A mean over a part of each row that begins and ends at scalars, as hannk's are."""
    image = np.random.default_rng(2).integers(0, 256, (4, 20), np.uint8)
    source = hl.ImageParam(hl.UInt(8), 2, "image")
    begin, extent = hl.Param(hl.Int(32), "begin"), hl.Param(hl.Int(32), "extent")
    r, total, out = hl.RDom([(begin, extent)], "r"), hl.Func("total"), hl.Func("out")
    total[y] = hl.u32(0)
    total[y] += hl.u32(source[hl.clamp(r.x, 0, source.width() - 1), y])
    out[y] = total[y] / hl.u32(extent)
    sizes = {"out_extent_0": 4, "image_extent_0": 20}
    found = evaluated(out, sizes, {"begin": 3, "extent": 9}, image=image)
    assert (found == image[:, 3:12].astype(np.uint32).sum(1) // 9).all()


def test_windows_end_where_the_image_does() -> None:
    """A pool whose window depends on the outputs' coordinates, as hannk's do."""
    image = np.random.default_rng(4).integers(0, 256, (1, 9), np.uint8)
    source = hl.ImageParam(hl.UInt(8), 2, "image")
    r, out = hl.RDom([(0, 4)], "r"), hl.Func("greatest")
    r.where(x * 2 + r.x < source.width())
    out[x, y] = hl.u8(0)
    out[x, y] = hl.max(out[x, y], source[x * 2 + r.x, y])
    require_same(serialized(out))
    sizes = {"greatest_extent_0": 5, "greatest_extent_1": 1, "image_extent_0": 9}
    found = evaluated(out, sizes, {}, image=image)
    assert found.tolist() == [[int(image[0, 2 * n : 2 * n + 4].max()) for n in range(5)]]


def test_products_take_64_bits_on_the_way() -> None:
    """The rounding doubling high product of fixed point."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-(2**31), 2**31, (2, 30), np.int64).astype(np.int32)
    left, right = hl.ImageParam(hl.Int(32), 1, "left"), hl.ImageParam(hl.Int(32), 1, "right")
    out = hl.Func("out")
    product = hl.i64(left[x]) * hl.i64(right[x]) + hl.i64(1 << 30)
    out[x] = hl.i32_sat(product >> hl.i64(31))
    found = evaluated(out, {"out_extent_0": 30}, {}, left=a, right=b)
    exact = [(int(one) * int(other) + (1 << 30)) >> 31 for one, other in zip(a, b, strict=True)]
    assert found.tolist() == [min(one, 2**31 - 1) for one in exact]


@pytest.mark.parametrize("is_inlined", [False, True])
@pytest.mark.parametrize("is_least", [False, True])
def test_searches_begin_at_what_nothing_may_be_added_to(is_least: bool, is_inlined: bool) -> None:
    """Halide asks for ``best + b > a`` instead of ``best > a - b``, of what is inlined as well."""
    image, gap, best = hl.ImageParam(hl.Int(16), 2, "image"), hl.Func("gap"), hl.Func("best")
    gap[x, y] = hl.i32(image[x, 0]) - hl.i32(image[x, y])
    r = hl.RDom([(0, 8)], "r")
    found = gap[r, x] if is_inlined else hl.i32(image[r, 0]) - hl.i32(image[r, x])
    best[x] = (hl.Int(32).max() if is_least else hl.Int(32).min(), -1)
    is_better = found < best[x][0] if is_least else best[x][0] < found
    best[x] = (hl.select(is_better, found, best[x][0]), hl.select(is_better, r, best[x][1]))
    data = serialized(best)
    values = np.random.default_rng(5).integers(-(1 << 15), 1 << 15, (32, 8), np.int16)
    wanted = interpreted(program_of(data), {"best_extent_0": 32}, {"image": values}, {})
    made = pipeline_of(checked(data))
    made.inputs[0].set(hl.Buffer(values))
    outputs = [hl.Buffer(np.zeros(32, np.int32)) for _ in wanted]
    hl.Pipeline(list(made.outputs)).realize(outputs)
    for own, other in zip(outputs, wanted.values(), strict=True):
        np.testing.assert_array_equal(np.array(own), other)


def test_overflow_is_told_of_the_stage_that_has_it() -> None:
    """A transform of i16 by an i16 basis, which Halide leaves undefined."""
    block, basis = hl.ImageParam(hl.Int(16), 2, "block"), hl.ImageParam(hl.Int(16), 2, "basis")
    r, out = hl.RDom([(0, 8)], "r"), hl.Func("sums")
    out[x, y] = 0
    out[x, y] += hl.i32(block[r, y]) * hl.i32(basis[x, r])
    program = program_of(serialized(out))
    (found,) = overflows(bounded(program, {"sums_extent_0": 8, "sums_extent_1": 8}))
    assert (found.stage, found.update, found.values.high) == ("sums", 0, 8 * 2**30)


def test_tables_lie_in_memory_as_their_author_laid_them() -> None:
    """Halide's own reader takes the elements for those of a dense table."""
    image, out = hl.ImageParam(hl.UInt(8), 2, "image"), hl.Func("out")
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    turned = hl.Buffer(values, "table", reverse_axes=False)
    out[x, y] = image[x, y] + turned[hl.clamp(x, 0, 1), hl.clamp(y, 0, 2)]
    sizes = {"out_extent_0": 2, "out_extent_1": 3}
    found = evaluated(out, sizes, {}, image=np.zeros((3, 2), np.uint8))
    assert (found == values.T).all()


def test_floats_are_refused_by_stage() -> None:
    image, out = hl.ImageParam(hl.Float(32), 1, "image"), hl.Func("out")
    out[x] = image[x] * 2.0
    with pytest.raises(NotTunableError, match=r"image computes in float32.*fixed point"):
        program_of(serialized(out))
