"""Pipelines that spell one algorithm in several ways become one normal form."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import halide as hl
import pytest

from tests.tuner.codegen.test_upload_programs import serialized, sizes_of
from tests.tuner.program.native import Coded
from tuner.codegen.halide.uploads.program import program_of
from tuner.codegen.hvx.pixel import NotAStencilError
from tuner.codegen.hvx.stencils import pixels_of
from tuner.problem.contract import Contract
from tuner.program.bounds import bounded
from tuner.program.normal import normalized
from tuner.program.printing import printed

c, x, y = (hl.Var(name) for name in "cxy")


def _image(kind: hl.Type = hl.UInt(8), name: str = "image") -> hl.Func:  # noqa: B008 - of Halide
    return hl.BoundaryConditions.repeat_edge(hl.ImageParam(kind, 2, name))


def _out(value: hl.Expr) -> hl.Func:
    out = hl.Func("out")
    out[x, y] = value
    return out


def _stage(name: str, value: hl.Expr) -> hl.Func:
    made = hl.Func(name)
    made[x, y] = value
    return made


def _gaussian(wide: Callable[[hl.Expr], hl.Expr], rounded: Callable[[hl.Expr], hl.Expr]) -> hl.Func:
    image, weights = _image(), (1, 4, 6, 4, 1)
    rows = _stage("rows", _total(wide(image[x, y + n - 2]) * w for n, w in enumerate(weights)))
    total = _total(rows[x + n - 2, y] * w for n, w in enumerate(weights))
    return _out(hl.u8(rounded(total + 128)))


def _total(terms: Iterable[hl.Expr]) -> hl.Expr:
    return reduce(lambda one, other: one + other, terms)


def _planes(value: hl.Expr) -> hl.Func:
    out = hl.Func("out")
    out[x, y, c] = value
    return out.bound(c, 0, 3)


def _pixels() -> hl.ImageParam:
    return hl.ImageParam(hl.UInt(8), 3, "pixels")


def _by_select() -> hl.Func:
    p = _pixels()
    return _planes(hl.select(c == 0, p[0, x, y], hl.select(c == 1, p[1, x, y], p[2, x, y])))


def _mean(image: hl.Func, wide: Callable[[hl.Expr], hl.Expr]) -> hl.Expr:
    return wide(image[x, y]) + wide(image[x + 1, y])


def _blend(*, staged: bool) -> hl.Func:
    image = _image()
    difference = hl.i16(image[x, y]) - hl.i16(image[x + 1, y])
    if staged:
        difference = _stage("difference", difference)[x, y]
    return _out(hl.u8_sat(difference * 2))


def _greater(*, chosen: bool) -> hl.Func:
    a, b = _image(name="a")[x, y], _image(name="b")[x, y]
    return _out(hl.select(a < b, b, a) if chosen else hl.max(b, a))


def _lighter(*, saturating: bool) -> hl.Func:
    value = _image()[x, y]
    return _out(
        hl.u8_sat(hl.u16(value) * 3) if saturating else hl.u8(hl.min(hl.i32(value) * 3, 255))
    )


def _apart(*, counted: bool) -> hl.Func:
    a, b = _image(name="a")[x, y], _image(name="b")[x, y]
    return _out(hl.absd(a, b) if counted else hl.u8(hl.abs(hl.i16(b) - hl.i16(a))))


def _mux(*, numbered: bool) -> hl.Func:
    p = _pixels()
    return _planes(hl.mux(c, [p[n, x, y] for n in range(3)]) if numbered else p[c, x, y])


SPELLINGS: dict[str, list[Callable[[], hl.Func]]] = {
    "gaussian5x5": [
        lambda: _gaussian(hl.u16, lambda total: total >> 8),
        lambda: _gaussian(hl.i16, lambda total: total >> 8),
        lambda: _gaussian(hl.i16, lambda total: hl.u16(total) / 256),
        lambda: _gaussian(hl.i32, lambda total: total / 256),
    ],
    "RGB to planes": [
        lambda: _mux(numbered=True),
        lambda: _mux(numbered=False),
        _by_select,
    ],
    "rounded mean": [
        lambda: _out(hl.u8((_mean(_image(), hl.u16) + 1) >> 1)),
        lambda: _out(hl.u8((_mean(_image(), hl.i32) + 1) / 2)),
        lambda: _out(hl.rounding_halving_add(_image()[x, y], _image()[x + 1, y])),
    ],
    "a stage of its own": [lambda: _blend(staged=True), lambda: _blend(staged=False)],
    "maximum": [lambda: _greater(chosen=True), lambda: _greater(chosen=False)],
    "saturation": [lambda: _lighter(saturating=True), lambda: _lighter(saturating=False)],
    "difference": [lambda: _apart(counted=True), lambda: _apart(counted=False)],
    "mask": [
        lambda: _out(_image()[x, y] & 7),
        lambda: _out(_image()[x, y] % 8),
    ],
    "double": [
        lambda: _out(hl.u16(_image()[x, y]) << 1),
        lambda: _out(hl.u16(_image()[x, y]) + hl.u16(_image()[x, y])),
    ],
    "threshold": [
        lambda: _out(hl.select(_image()[x, y] >= 9, hl.u8(255), hl.u8(0))),
        lambda: _out(hl.select(_image()[x, y] < 9, hl.u8(0), hl.u8(255))),
        lambda: _out(hl.select(hl.i32(_image()[x, y]) > 8, hl.u8(255), hl.u8(0))),
    ],
    "complement": [
        lambda: _out(~_image()[x, y]),
        lambda: _out(255 - _image()[x, y]),
        lambda: _out(hl.u8(255 - hl.i32(_image()[x, y]))),
    ],
    "edges": [
        lambda: _out(_image()[x - 1, y]),
        lambda: _out(_clamped(hl.ImageParam(hl.UInt(8), 2, "image"))),
    ],
}


def _clamped(image: hl.ImageParam) -> hl.Expr:
    inside = hl.max(hl.min(x - 1, image.width() - 1), 0)
    return image[inside, hl.clamp(y, 0, image.height() - 1)]


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_pipelines_meet(name: str) -> None:
    texts = set()
    for spelled in SPELLINGS[name]:
        program = program_of(serialized(spelled()))
        texts.add(printed(normalized(program, {**sizes_of(program), "out_extent_2": 3})))
    assert len(texts) == 1, "\n".join(texts)


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_with_as_many_stages_have_one_c_in_normal_form(name: str) -> None:
    sources = set()
    for spelled in SPELLINGS[name]:
        program = program_of(serialized(spelled()))
        code = Coded(program, {**sizes_of(program), "out_extent_2": 3})
        sources.add((len(program.stages), code.source(Contract.STATIC, stages="normal")))
    assert len(sources) == len({count for count, _ in sources})


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_are_one_pixel_or_none_is(name: str) -> None:
    found = set()
    for spelled in SPELLINGS[name]:
        program = program_of(serialized(spelled()))
        bounds = bounded(program, {**sizes_of(program), "out_extent_2": 3})
        try:
            names = [*(one.name for one in program.inputs), *program.outputs]
            shapes = {n: tuple(one.high + 1 - one.low for one in bounds.boxes[n]) for n in names}
            found.add(pixels_of(program, shapes))
        except NotAStencilError:
            found.add(None)
    assert len(found) == 1


def test_sums_of_any_width_are_one_pixel_whatever_the_sizes() -> None:
    programs = [program_of(serialized(spelled())) for spelled in SPELLINGS["gaussian5x5"]]
    assert len(set(map(pixels_of, programs))) == 1
