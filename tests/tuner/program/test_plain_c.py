"""Plain C of programs, compiled for this machine, gives what the reference gives. Of random ones
``test_agreement`` says so."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from tests.tuner.program.native import Coded, RefusedError
from tuner.problem.contract import Contract
from tuner.program.bounds import bounded
from tuner.program.expressions import Cast, Constant, Expr, Select, Variable, equal
from tuner.program.interpretation import interpreted
from tuner.program.loops import Buffer, Loop, Program, Stage
from tuner.program.parsing import parsed
from tuner.program.plain_c import Order, plain_c
from tuner.program.printing import printed
from tuner.program.types import I32, U8


@pytest.mark.slow
def test_deep_expressions_are_no_trouble() -> None:
    """A sum of five hundred terms, and a choice among two hundred."""
    x, image = Variable("x"), Buffer("image", U8, ((),), 0, 255)
    total: Expr = Constant(0, I32)
    for number in range(500):
        total = total + Cast(I32, image.at(x + number)) * number
    chosen = image.at(x)
    for number in range(200):
        chosen = Select(equal(x, number), Constant(number % 256, U8), chosen)
    axis = Loop("x", Constant(0, I32), Constant(40, I32))
    stages = Stage(("sums",), (axis,), (total,)), Stage(("out",), (axis,), (chosen,))
    program = Program("deep", (), (image,), (), stages, ("sums", "out"))
    assert parsed(printed(program)) == program
    inputs = {"image": np.arange(539).astype(np.uint8)}
    wanted = interpreted(program, {}, inputs, {})
    windows = np.lib.stride_tricks.sliding_window_view(inputs["image"].astype(np.int32), 500)
    assert (wanted["sums"] == windows @ np.arange(500)).all()
    assert (wanted["out"] == np.arange(40)).all()
    with TemporaryDirectory() as folder:
        found = Coded(program, {}).called(inputs, {}, Path(folder))
    assert all((found[name] == wanted[name]).all() for name in wanted)


def test_what_is_never_chosen_is_not_computed(tmp_path: Path) -> None:
    text = """
def never(width: size, image: u8[width]):
    for x in ...:
        lost[x] = image[x + 1000]
    for x in range(width):
        out[x] = select(x < width, image[x], lost[x])
    return out
"""
    program, inputs = parsed(text), {"image": np.arange(20).astype(np.uint8)}
    sizes = {"width": 20}
    for found in (
        interpreted(program, sizes, inputs, {}),
        Coded(program, sizes).called(inputs, {}, tmp_path),
    ):
        assert (found["out"] == inputs["image"]).all()


def test_names_that_c_has_are_no_trouble(tmp_path: Path) -> None:
    text = """
def double(int: size, char: u8[int]):
    for short in range(int):
        max_u8[short] = max(char[short], 9)
    for short in range(int):
        at_[short] = max_u8[short] + 1
    return at_
"""
    image = np.arange(20).astype(np.uint8)
    found = Coded(parsed(text), {"int": 20}).called({"char": image}, {}, tmp_path)
    assert (found["at_"] == np.maximum(image, 9) + 1).all()


def test_c_reads_like_the_loops() -> None:
    text = """
def blur(width: size, image: u8[width]):
    for x in ...:
        wide[x] = u16(image[max(min(x, width - 1), 0)])
    for x in range(width):
        out[x] = u8((wide[x - 1] + wide[x] * 2 + wide[x + 1] + 2) >> 2)
    return out
"""
    made = plain_c(bounded(parsed(text), {"width": 64}), {"image": (0,)}).loops
    assert "enum { width = 64 };" in made
    assert "for (int32_t x = -1; x < 65; ++x) {" in made
    assert "wide[x + 1] = image[max_i32(min_i32(x, width - 1), 0)];" in made


def test_loops_go_another_way_where_it_may_matter() -> None:
    """Squares of what is turned, sums along rows, channels of a pixel; the rest stays as it is."""
    text = """
def ways(height: size, width: size, image: u8[height, width], mixed: u8[height, width, 3]):
    for x in range(width):
        for y in range(height):
            turned[x, y] = image[y, x]
    for c in range(3):
        for y in range(height):
            for x in range(width):
                apart[c, y, x] = mixed[y, x, c]
    for y in range(height):
        for x in range(width):
            total[y, x] = u16(image[y, x])
    for y in ...:
        for x in ...:
            for r in range(3):
                total[y, x] += u16(mixed[y, x, r])
    return turned, apart, total
"""
    bounds = bounded(parsed(text), {"height": 64, "width": 60})
    firsts = {"image": (0, 0), "mixed": (0, 0, 0)}

    def nests(**order: Any) -> str:
        loops = plain_c(bounds, firsts, Order(**order)).loops
        found = re.sub(r"for \(int32_t (\w+) [^{]*{|(\w+)\[.*|.", r"\1\2 ", loops)
        return " ".join(found.split())

    written = "x y turned c y x apart y x total y x r total"
    assert nests() == written
    assert nests(columns=True) == written.replace("x y turned", "y x turned")
    squares = written.replace("x y turned", "x_block_ y_block_ x y turned")
    assert nests(block=8) == squares
    assert nests(pixels=True) == written.replace("c y x apart", "y x c apart")
    assert nests(rows=True) == written.replace("y x r total", "y r x total")


def test_pixels_of_the_usual_channels_are_loops_of_their_own(tmp_path: Path) -> None:
    """Channels that a caller chooses, or the usual few, which the compiler knows then."""
    text = """
def mixed(channels: size, height: size, width: size, planes: u8[..., ..., ...]):
    for y in range(height):
        for x in range(width):
            for c in range(channels):
                out[y, x, c] = planes[c, y, x]
    return out
"""
    usual = {"channels": 3, "height": 4, "width": 20}
    code = Coded(parsed(text), usual, is_open=True)
    for channels in (1, 3, 5):
        sizes = {**usual, "channels": channels}
        planes = np.arange(channels * 4 * 20).astype(np.uint8).reshape(channels, 4, 20)
        run = partial(code.called, {"planes": planes}, {}, contract=Contract.NONE, sizes=sizes)
        for is_dense in (False, True):
            folder = tmp_path / f"{channels}{is_dense}"
            folder.mkdir()
            found = run(folder, is_dense=is_dense)
            assert (found["out"] == planes.transpose(1, 2, 0)).all()


def test_calls_that_would_read_beyond_a_buffer_are_refused(tmp_path: Path) -> None:
    text = """
def shifted(width: size, image: u8[...]):
    for x in range(width):
        out[x] = image[x] + image[x + 2]
    return out
"""
    code = Coded(parsed(text), {"width": 20}, is_open=True)
    image = np.arange(22).astype(np.uint8)
    run = partial(code.called, {"image": image}, {}, contract=Contract.NONE)
    folders = tmp_path / "whole", tmp_path / "short"
    for folder in folders:
        folder.mkdir()
    assert (run(folders[0])["out"] == image[:-2] + image[2:]).all()
    with pytest.raises(RefusedError):
        run(folders[1], fewer=1)
