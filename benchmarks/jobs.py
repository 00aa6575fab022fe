"""Jobs of data movement and reduction: plain loops in C beside the best that a search finds.

What people do between filters: arrays turned and interleaved, blocks compared, running sums,
counts, recurrences, gathers, transforms. Prints model cycles on the default target, contract
static, caches warm: of the program's own loops in C, by clang without and with its vectorizer (the
better counts), of an expert's first try in intrinsics where there was one, verified in the same
simulator, of the first config of the generator that has the best, and of the best. Spellings of one
job stand below one another. It fails if a best is behind the C, or a tenth behind the expert, or a
spelling a tenth behind another.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import halide as hl

import tuner
from benchmarks.everyday import pipelines
from benchmarks.harness import Report, add_names, add_search_options, searched_with, tell
from tuner.codegen import find_generator
from tuner.codegen.generator import GENERATOR
from tuner.errors import UserError
from tuner.jobs.one_config import measure
from tuner.jobs.tuning import find_problem, keep_pipeline
from tuner.keeping.memory_store import MemoryStore
from tuner.kernels import find_kernel
from tuner.problem.default_target import DEFAULT_TARGET
from tuner.records.candidate import Measurement, Problem

_C = "c-autovec"
_APART = 1.1
"""Of spellings of one job, and of an expert."""
_X, _Y, _C_AXIS = hl.Var("x"), hl.Var("y"), hl.Var("c")


def _image(name: str = "image", kind: hl.Type | None = None, dimensions: int = 2) -> hl.ImageParam:
    return hl.ImageParam(kind or hl.UInt(8), dimensions, name)


def turned(kind: hl.Type) -> Callable[[], hl.Func]:
    """Rows become columns."""

    def make() -> hl.Func:
        out = hl.Func("out")
        out[_X, _Y] = _image("image", kind)[_Y, _X]
        return out

    return make


def interleave() -> hl.Func:
    """Planes of colours to pixels."""
    out = hl.Func("out")
    out[_C_AXIS, _X, _Y] = _image(dimensions=3)[_X, _Y, _C_AXIS]
    return out


def planes(spelling: str) -> Callable[[], hl.Func]:
    """Pixels to planes of colours, chosen by an index, by ``mux`` or by ``select``."""

    def make() -> hl.Func:
        image, out = _image(dimensions=3), hl.Func("out")
        each = [image[channel, _X, _Y] for channel in range(3)]
        out[_X, _Y, _C_AXIS] = {
            "index": image[_C_AXIS, _X, _Y],
            "mux": hl.mux(_C_AXIS, each),
            "select": hl.select(_C_AXIS == 0, each[0], hl.select(_C_AXIS == 1, *each[1:])),
        }[spelling]
        return out

    return make


def nv12() -> hl.Pipeline:
    """Pixels to a plane of luma and one of chroma, interleaved, half as large (BT.601)."""
    image = _image(dimensions=3)

    def weighted(at: tuple[Any, Any], weights: tuple[int, int, int], offset: int) -> Any:
        total = hl.i32(128)
        for channel, weight in enumerate(weights):
            total += weight * hl.i32(image[(channel, *at)])
        return hl.u8((total >> 8) + offset)

    luma, chroma = hl.Func("luma"), hl.Func("chroma")
    luma[_X, _Y] = weighted((_X, _Y), (66, 129, 25), 16)
    corner = 2 * _X, 2 * _Y
    both = weighted(corner, (-38, -74, 112), 128), weighted(corner, (112, -94, -18), 128)
    chroma[_C_AXIS, _X, _Y] = hl.select(_C_AXIS == 0, *both)
    return hl.Pipeline([luma, chroma])


def differences() -> hl.Func:
    """Sums of absolute differences of blocks of 16x16 at each of 17x17 shifts."""
    names = ("shift_x", "shift_y", "block_x", "block_y")
    shift_x, shift_y, block_x, block_y = axes = [hl.Var(name) for name in names]
    over, out = hl.RDom([(0, 16), (0, 16)], "over"), hl.Func("out")
    x, y = 16 * block_x + over.x, 16 * block_y + over.y
    own, other = _image("own")[x, y], _image("other")[x + shift_x - 8, y + shift_y - 8]
    out[axes] = hl.sum(hl.i32(hl.absd(own, other)))
    return out


def fir() -> hl.Func:
    """A filter of 32 taps of 16 bits over samples of 16 bits."""
    k, out = hl.RDom([(0, 32)], "k"), hl.Func("out")
    samples, taps = _image("samples", hl.Int(16), 1), _image("taps", hl.Int(16), 1)
    total = hl.sum(hl.i32(samples[_X + k]) * hl.i32(taps[k]))
    out[_X] = hl.i16_sat((total + (1 << 14)) >> 15)
    return out


def product(kind: hl.Type) -> Callable[[], hl.Func]:
    """A product of matrices of 8 or 16 bits, summed in 32."""

    def make() -> hl.Func:
        a, b = _image("a", kind), _image("b", kind)
        k, out = hl.RDom([(0, a.dim(0).extent())], "k"), hl.Func("out")
        out[_X, _Y] = hl.u32(0)
        out[_X, _Y] += hl.u32(a[k, _Y]) * hl.u32(b[_X, k])
        return out

    return make


def histogram() -> hl.Func:
    """How often each byte occurs."""
    image, out, value = _image(), hl.Func("out"), hl.Var("value")
    ends = [(0, image.dim(number).extent()) for number in range(2)]
    everywhere = hl.RDom(ends, "everywhere")
    out[value] = hl.u32(0)
    out[hl.i32(image[everywhere.x, everywhere.y])] += hl.u32(1)
    return out


def transform() -> hl.Func:
    """Blocks of 8x8 of 16 bits by a basis of 16 bits, rows then columns."""
    u, v, at_x, at_y = (hl.Var(name) for name in ("u", "v", "at_x", "at_y"))
    image, basis = _image("image", hl.Int(16)), _image("basis", hl.Int(16))
    k, j = hl.RDom([(0, 8)], "k"), hl.RDom([(0, 8)], "j")
    rows, out = hl.Func("rows"), hl.Func("out")
    across = hl.i32(image[8 * at_x + k, 8 * at_y + v]) * hl.i32(basis[k, u])
    rows[u, v, at_x, at_y] = hl.i16_sat((hl.sum(across) + (1 << 8)) >> 9)
    down = hl.i32(rows[u, j, at_x, at_y]) * hl.i32(basis[j, v])
    out[u, v, at_x, at_y] = hl.i16_sat((hl.sum(down) + (1 << 15)) >> 16)
    return out


def correlation() -> hl.Func:
    """Products of signed bytes with a template of 16x16, at each place."""
    over, out = hl.RDom([(0, 16), (0, 16)], "over"), hl.Func("out")
    image, template = _image("image", hl.Int(8)), _image("template", hl.Int(8))
    out[_X, _Y] = hl.i32(0)
    tap = hl.i16(template[over.x, over.y])
    out[_X, _Y] += hl.i32(tap * hl.i16(image[_X + over.x, _Y + over.y]))
    return out


def channels(*, are_inner: bool) -> Callable[[], hl.Func]:
    """Channels that lie together apart (NHWC to NCHW), or the way back."""

    def make() -> hl.Func:
        image, out = _image(dimensions=3), hl.Func("out")
        there, here = (_C_AXIS, _X, _Y), (_X, _Y, _C_AXIS)
        out[here if are_inner else there] = image[there if are_inner else here]
        return out

    return make


def recursive(*, along: bool) -> Callable[[], hl.Func]:
    """A filter of one pole along rows or down columns: values go a quarter nearer to pixels."""

    def make() -> hl.Func:
        image, out = _image(), hl.Func("out")
        over = hl.RDom([(1, (_ROWS["x"] if along else _ROWS["y"]) - 1)], "over")
        at, before = ((over, _Y), (over - 1, _Y)) if along else ((_X, over), (_X, over - 1))
        out[_X, _Y] = hl.i16(image[_X, _Y]) << 6
        out[at] = hl.i16((hl.i32(out[before]) * 3 + hl.i32(out[at]) + 2) >> 2)
        return out

    return make


def greatest() -> hl.Func:
    """The greatest pixel of a row so far."""
    image, out, over = _image(), hl.Func("out"), hl.RDom([(1, _ROWS["x"] - 1)], "over")
    out[_X, _Y] = image[_X, _Y]
    out[over, _Y] = hl.max(out[over - 1, _Y], out[over, _Y])
    return out


def resized() -> hl.Func:
    """Rows half as long again, each pixel between the two next to it."""
    image, out = _image(), hl.Func("out")
    at, last = (4 * _X - 1) * 128 // 6, image.width() - 1
    left, right = (hl.u16(image[hl.clamp(at // 128 + n, 0, last), _Y]) for n in (0, 1))
    weight = hl.u16(at % 128)
    out[_X, _Y] = hl.u8(((128 - weight) * left + weight * right + 64) >> 7)
    return out


def nearer_bits() -> hl.Func:
    """How many bits differ."""
    out = hl.Func("out")
    out[_X, _Y] = hl.popcount(_image("own")[_X, _Y] ^ _image("other")[_X, _Y])
    return out


def to_yuyv() -> hl.Func:
    """Planes of luma and half of chroma to pixels in pairs."""
    luma, u, v = (_image(name) for name in ("luma", "u", "v"))
    each = [luma[_X // 2, _Y], u[_X // 4, _Y], luma[_X // 2, _Y], v[_X // 4, _Y]]
    out = hl.Func("out")
    out[_X, _Y] = hl.mux(_X % 4, each)
    return out


def packed(below: int) -> hl.Func:
    """Raw pixels as halfwords: a byte of each, and after as many as fill one the bits ``below``."""
    raw, out = _image("raw"), hl.Func("out")
    many = 8 // below
    first = _X // many * (many + 1)
    low = hl.u16(raw[first + many, _Y]) >> hl.u16(below * (_X % many))
    out[_X, _Y] = hl.u16(raw[first + _X % many, _Y]) << below | low & ((1 << below) - 1)
    return out


@dataclass(frozen=True)
class Job:
    """A pipeline at a size. Those of one ``kind`` are spellings of one job. ``expert`` are the
    model cycles of an expert's first try, if there was one."""

    make: Callable[[], hl.Func | hl.Pipeline]
    sizes: Mapping[str, int]
    kind: str = ""
    expert: int | None = None


_ROWS = {"x": 512, "y": 128, "c": 3}
JOBS = {
    "transpose": Job(turned(hl.UInt(8)), {"x": 512, "y": 512}, expert=13_323),
    "transpose, i16": Job(turned(hl.Int(16)), {"x": 256, "y": 256}),
    "NHWC to NCHW": Job(channels(are_inner=True), {"c": 64, "x": 56, "y": 56}),
    "NCHW to NHWC": Job(channels(are_inner=False), {"c": 64, "x": 56, "y": 56}),
    "2 planes together": Job(channels(are_inner=False), {**_ROWS, "c": 2}),
    "4 planes together": Job(channels(are_inner=False), {**_ROWS, "c": 4}),
    "4 channels apart": Job(channels(are_inner=True), {**_ROWS, "c": 4}),
    "planes to RGB": Job(interleave, _ROWS, expert=6_174),
    "RGB to planes, index": Job(planes("index"), _ROWS, "RGB to planes", 5_144),
    "RGB to planes, mux": Job(planes("mux"), _ROWS, "RGB to planes", 5_144),
    "RGB to planes, select": Job(planes("select"), _ROWS, "RGB to planes", 5_144),
    "RGB to NV12": Job(
        nv12, {"x": 512, "y": 128, "chroma_c": 2, "chroma_x": 256, "chroma_y": 64}, expert=8_846
    ),
    "16x16 differences": Job(
        differences, {"shift_x": 17, "shift_y": 17, "block_x": 16, "block_y": 4}, expert=104_043
    ),
    "FIR of 32 taps, i16": Job(fir, {"x": 16384}, expert=9_546),
    "mean of 2x2": Job(pipelines.pooling, {"x": 512, "y": 256}, expert=4_740),
    "product, u8": Job(product(hl.UInt(8)), {"x": 100, "y": 100, "a_0": 100}),
    "product, u16": Job(product(hl.UInt(16)), {"x": 100, "y": 100, "a_0": 100}),
    "histogram": Job(histogram, {"value": 256, "image_0": 512, "image_1": 256}, expert=1_282),
    "integral image": Job(pipelines.integral, {"x": 512, "y": 64}),
    "remap by tables": Job(
        pipelines.warp, {"x": 512, "y": 64, "image_0": 512, "image_1": 64}, expert=20_925
    ),
    "8x8 transforms, i16": Job(transform, {"u": 8, "v": 8, "at_x": 64, "at_y": 16}, expert=31_439),
    "correlation with 16x16": Job(correlation, {"x": 512, "y": 64}, expert=44_267),
    "RAW10 to u16": Job(lambda: packed(2), {"x": 1024, "y": 64}),
    "RAW12 to u16": Job(lambda: packed(4), {"x": 1024, "y": 64}),
    "planes to YUYV": Job(to_yuyv, {"x": 2048, "y": 64}),
    "one pole along rows": Job(recursive(along=True), {"x": 512, "y": 128}),
    "one pole down columns": Job(recursive(along=False), {"x": 512, "y": 128}),
    "greatest so far": Job(greatest, {"x": 512, "y": 128}),
    "rows half as long again": Job(resized, {"x": 1023, "y": 64, "image_0": 683}),
    "bits that differ": Job(nearer_bits, {"x": 512, "y": 128}),
}


def in_c(problem: Problem) -> Measurement | None:
    """The better of the program's loops in C, with and without clang's vectorizer."""
    kernel, found = find_kernel(problem.workload.kernel), list[Measurement]()
    with suppress(UserError):  # a program that C cannot bound
        for config in find_generator(_C).starts(kernel, problem).values():
            trial, _ = measure(problem, config, generator=_C)
            found += [trial.measurement] if trial.measurement else []
    return min(found, key=lambda one: one.cycles, default=None)


def options(parser: argparse.ArgumentParser) -> None:
    """Which jobs, and how they are searched."""
    add_names(parser, "JOB", JOBS)
    add_search_options(parser, trials=100)


def run(given: argparse.Namespace, report: Report) -> None:
    """Tunes the jobs, and tells a row for each."""
    columns = {"job": "", "C": ",", "expert": ",", "first": ","}
    report.table({**columns, f"best of {given.trials}": ",", "by": ""})
    spellings: dict[str, list[int]] = {}
    for name in given.names:
        job = JOBS[name]
        tell(name)
        kernel = keep_pipeline(job.make())
        problem = find_problem(kernel, dict(job.sizes), DEFAULT_TARGET, "static")
        plain = in_c(problem)
        result = tuner.tune(kernel, job.sizes, store=MemoryStore(), **searched_with(given))
        best = result.best
        if best is None or best.measurement is None:
            report.row(name, plain.cycles if plain else None, job.expert, None, None, "-")
            report.fault(f"{name}: no candidate is right")
            continue
        by = best.config.get(GENERATOR, given.generator)
        own = [one for one in result.trials if one.config.get(GENERATOR, given.generator) == by]
        first = next((one.measurement for one in own if one.measurement), None)
        cycles = best.measurement.cycles
        others = plain.cycles if plain else None, job.expert, first.cycles if first else None
        report.row(name, *others, cycles, str(by))
        spellings.setdefault(job.kind or name, []).append(cycles)
        if plain and plain.cycles < cycles:
            report.fault(f"{name}: plain C is ahead")
        if job.expert and cycles > _APART * job.expert:
            report.fault(f"{name}: an expert is ahead")
    for kind, found in spellings.items():
        if max(found) > _APART * min(found):
            report.fault(f"{kind}: its spellings take {min(found):,} to {max(found):,}")
