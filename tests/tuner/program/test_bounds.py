"""Bounds hold what happens, refuse what would read beyond, and tell where sums overflow."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.tuner.program.drawn import arguments_of, programs
from tuner.program.bounds import bounded
from tuner.program.expressions import (
    Cast,
    Constant,
    Expr,
    ProgramError,
    Select,
    Variable,
    equal,
    maximum,
    minimum,
)
from tuner.program.interpretation import interpreted
from tuner.program.intervals import Interval
from tuner.program.loops import Buffer, Loop, Program, Stage
from tuner.program.normal import normalized
from tuner.program.overflow import overflows, without_overflow
from tuner.program.parsing import parsed
from tuner.program.plain_c import plain_c
from tuner.program.printing import printed
from tuner.program.types import I32, U8

IMAGE = {"height": 16, "width": 32}


READ = "for y in range(height):\n    for x in range(width):\n        out[y, x] = image[y, {}]"


def program(body: str, arguments: str = "image: u8[height, width]") -> Program:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    head = f"def made(height: size, width: size, {arguments}):"
    return parsed(f"{head}\n{lines}\n    return out\n")


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_values_lie_within_bounds(drawn: Program, height: int, width: int, seed: int) -> None:
    note(printed(drawn))
    sizes = {"height": height, "width": width}
    values = bounded(drawn, sizes).values
    outputs = interpreted(drawn, sizes, *arguments_of(drawn, sizes, seed))
    for name, found in outputs.items():
        assert values[name].covers(Interval(int(found.min()), int(found.max()))), name


def test_stages_reach_as_far_as_they_are_read() -> None:
    bounds = bounded(
        program(
            """
for y in ...:
    for x in ...:
        low[y, x] = u16(image[y, x]) + u16(image[y + 1, 2 * x])
for y in range(height):
    for x in range(width):
        out[y, x] = low[y - 1, x + 3] + low[y + 2, x // 2]
""",
            "image: u8[..., ...]",
        ),
        IMAGE,
    )
    assert bounds.boxes["low"] == (Interval(-1, 17), Interval(0, 34))
    assert bounds.boxes["image"] == (Interval(-1, 18), Interval(0, 68))


@pytest.mark.parametrize(
    "index",
    [
        "max(min(x - 2, width - 1), 0)",
        "select(x < 2, 1 - x, x - 2)",
        "select(x + 2 >= width, 2 * width - 3 - x, x + 2)",
        "select((x > 3) & (x < width - 4), x + 4, x)",
        "(x + (width - x)) - 1",
        "x % 7",
        "i32(image[y, x]) & 15",
        "absd(x, 3) // 2",
    ],
)
def test_indices_within_the_image_are_seen_to_be(index: str) -> None:
    index = f"i32({index})" if "absd" in index else index
    text = READ.format(index)
    assert bounded(program(text), IMAGE).boxes["out"] == (Interval(0, 15), Interval(0, 31))


@pytest.mark.parametrize(
    ("index", "told"),
    [
        ("x + 1", "image is used from 1 to 32 along axis 1, where it goes from 0 to 31"),
        ("select(x < 30, x + 3, 0)", "from 0 to 32"),
        ("i32(image[y, x])", "from 0 to 255"),
    ],
)
def test_reads_beyond_a_buffer_are_refused(index: str, told: str) -> None:
    text = READ.format(index)
    with pytest.raises(ProgramError, match=told):
        bounded(program(text), IMAGE)


PRODUCT = """
for y in range(height):
    for x in range(height):
        out[y, x] = i32(0)
for y in ...:
    for x in ...:
        for r in range(width):
            out[y, x] += i32(image[y, r]) * i32(image[x, r])
"""


def test_sums_that_overflow_are_told_with_a_range_that_avoids_it() -> None:
    wide = program(PRODUCT, "image: i16[height, width]")
    (found,) = overflows(bounded(wide, IMAGE))
    assert (found.stage, found.update) == ("out", 0)
    assert found.values.high == 32 * 2**30
    assert "the stage out may overflow in its update 0" in str(found)
    narrow = without_overflow(wide, IMAGE)
    assert narrow is not None
    (image,) = narrow.inputs
    assert 32 * image.low**2 < 2**31 <= 32 * (2 * image.low) ** 2
    assert bounded(narrow, IMAGE).values["out"].high == 32 * image.low**2
    assert not overflows(bounded(program(PRODUCT), IMAGE))


@pytest.mark.parametrize("kind", ["i32", "i64"])
@pytest.mark.parametrize(
    "operation", ["{0} + {0}", "{0} - 2", "{0} * {0}", "{0} // {0}", "{0} << 1", "0 - {0}"]
)
def test_each_operation_that_may_overflow_is_told(operation: str, kind: str) -> None:
    body = READ.replace("image[y, {}]", operation.format("image[y, x]"))
    (found,) = overflows(bounded(program(body, f"image: {kind}[height, width]"), IMAGE))
    assert found.expression.type.low > found.values.low or found.values.high > 2**31 - 1
    assert "".join(operation.format("image[y, x]")) in str(found)
    narrow = kind.replace("i", "u")
    assert not overflows(bounded(program(body, f"image: {narrow}[height, width]"), IMAGE))


def test_overflow_under_a_condition_that_excludes_it_is_none() -> None:
    body = """
for y in range(height):
    for x in range(width):
        out[y, x] = select(image[y, x] < 1000, image[y, x] * 3, 0)
"""
    arguments = "image: i32(0, 2147483647)[height, width]"
    assert not overflows(bounded(program(body, arguments), IMAGE))
    assert overflows(bounded(program(body.replace("< 1000", "> 1000"), arguments), IMAGE))


@pytest.mark.parametrize(
    ("value", "range_", "bits"),
    [
        ("A << clz(A) - 16", "0, 2147483647", 16),
        ("A << clz(A) - 1", "-1, 2147483647", 31),
        ("A >> 16 - clz(A)", "-2147483648, 2147483647", 16),
        ("A << clz(A) - 40", "0, 2147483647", 0),
        ("A << i32(clz(abs(A))) - 1", "-2147483648, 2147483647", 31),
        ("A << i32(clz(u16(A))) + 8", "0, 65535", 24),
        ("A << clz(A)", "0, 2147483647", None),
        ("A << clz(A) + 1", "-3, 2147483647", None),
        ("A << clz(A + 1) - 16", "0, 2147483646", None),
        ("A << i32(clz(u16(A))) + 8", "0, 65536", None),
        ("A << i32(clz(u16_sat(A))) + 8", "0, 65536", None),
        ("A << 16 - clz(A)", "0, 2147483647", None),
        ("A << 2 * clz(A) - 16", "0, 2147483647", None),
    ],
)
def test_shifts_by_the_zeros_before_a_number_normalize_it(
    value: str, range_: str, bits: int | None
) -> None:
    body = READ.replace("image[y, {}]", value.replace("A", "image[y, x]"))
    made = program(body, f"image: i32({range_})[height, width]")
    bounds = bounded(made, IMAGE)
    assert bool(overflows(bounds)) == (bits is None)
    low, high = map(int, range_.split(","))
    near = [end + n for one in range(33) for end in (1 << one, -1 << one) for n in (-1, 0, 1)]
    values = np.array([n for n in near if low <= n <= high] + [low, high])
    image = np.resize(values, (16, 32)).astype(np.int32)
    (out,) = interpreted(made, IMAGE, {"image": image}, {}).values()
    assert bounds.values["out"].covers(Interval(int(out.min()), int(out.max())))
    if bits is not None:
        assert bounds.values["out"].high == (1 << bits) - 1


def test_empty_sums_store_nothing() -> None:
    body = PRODUCT.replace("range(width)", "range(width, width)")
    made = program(body)
    assert bounded(made, IMAGE).values["out"] == Interval(0, 0)
    assert not interpreted(made, IMAGE, {"image": np.ones((16, 32), np.uint8)}, {})["out"].any()


def _deep(kind: str, depth: int) -> Program:
    """One stage that computes, reads, chooses or ends at an expression of that ``kind``, which goes
    on within itself ``depth`` times."""
    x, seven = Variable("x"), Constant(7, I32)
    image = Buffer("image", U8, ((),), 0, 255)
    read, count = Cast(I32, image.at(x)), Variable("count")
    held: Expr = equal(read, 3)
    value, index, end = read, x, count
    for number in range(depth):
        if kind == "sum":
            value = value + read
        elif kind == "choice":
            value = Select(equal(read, number % 9), Cast(I32, image.at(x + number)), value)
        elif kind == "chosen":
            value = Select(equal(value, number % 9), seven, value)
        elif kind == "condition":
            value = Select(equal(value, 3), Constant(number, I32), seven)
        elif kind == "conjunction":
            held = (read > number % 9) & held
        elif kind == "negation":
            held = ~(held | (read > number % 9))
        elif kind == "index":
            index = minimum(index + 1, count)
        else:
            end = maximum(end - 1, 3)
    at = Cast(I32, image.at(maximum(index, 0)))
    axis = Loop("x", Constant(0, I32), end)
    stage = Stage(("out",), (axis,), (Select(held, value + at, value),))
    return Program("deep", ("count",), (image,), (), (stage,), ("out",))


_DEAR = [
    pytest.param(kind, marks=pytest.mark.slow)
    for kind in ("choice", "chosen", "conjunction", "negation")
]


@pytest.mark.parametrize("kind", ["sum", "condition", "index", "end", *_DEAR])
def test_what_nests_deep_is_read(kind: str) -> None:
    """A thousand levels, as the reader of pipelines lets pass, are read or refused in a sentence,
    and a hundred are read."""
    for depth in (100, 1000):
        made = _deep(kind, depth)
        with contextlib.suppress(*[ProgramError] * (depth == 1000)):
            bounds = bounded(made, {"count": 12})
            plain_c(bounds, {"image": [0]})
            normalized(made, bounds.sizes)
            image = np.arange(bounds.boxes["image"][0].high + 1, dtype=np.uint8) % 9
            (out,) = interpreted(made, bounds.sizes, {"image": image}, {}).values()
            assert bounds.values["out"].covers(Interval(int(out.min()), int(out.max())))


def test_what_would_take_forever_is_refused() -> None:
    """Sixty choices within one another, each of which may be the eighth that holds."""
    x, image = Variable("x"), Buffer("image", U8, ((),), 0, 255)
    value: Expr = Cast(I32, image.at(x))
    for number in range(60):
        value = Select(equal(image.at(x + number), 3), value + 1, value * 2)
    axis = Loop("x", Constant(0, I32), Constant(40, I32))
    deep = Program("deep", (), (image,), (), (Stage(("out",), (axis,), (value,)),), ("out",))
    with pytest.raises(ProgramError, match="too long to follow"):
        bounded(deep, {})


def test_patience_is_for_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long program that chooses nothing is as long to follow as it has nodes."""
    monkeypatch.setattr("tuner.program.intervals._MOST_STEPS", 0)
    stages = [f"s{number}" for number in range(9)]
    lines = ["def made(width: size, image: u8[...]):"]
    for before, stage in zip(["image", *stages], [*stages, "out"], strict=True):
        terms = " + ".join(f"{n % 7 + 1} * u16({before}[x + {n}])" for n in range(40))
        over = "range(width)" if stage == "out" else "..."
        lines += [f"    for x in {over}:", f"        {stage}[x] = u8({terms} >> 8)"]
    found = bounded(parsed("\n".join([*lines, "    return out\n"])), {"width": 64})
    assert found.boxes["image"] == (Interval(0, 63 + 39 * 10),)
