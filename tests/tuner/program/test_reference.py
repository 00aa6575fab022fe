"""The reference is exact: each operator at each width, and each kind of stage."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuner.program.drawn import TYPES
from tuner.program.bounds import bounded
from tuner.program.expressions import (
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    SHIFTS,
    Binary,
    Cast,
    Constant,
    Expr,
    ProgramError,
    Unary,
)
from tuner.program.interpretation import evaluated, evaluated_in_parts, interpreted
from tuner.program.meanings import value_of
from tuner.program.parsing import parsed
from tuner.program.types import BOOL, Type

# What operators mean, of numbers without a width.
INTEGERS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: 0 if b == 0 else (a - a % abs(b)) // b,
    "%": lambda a, b: 0 if b == 0 else a % abs(b),
    "min": min,
    "max": max,
    "absd": lambda a, b: abs(a - b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << min(b, 64) if b >= 0 else a >> -b,
    ">>": lambda a, b: a >> b if b >= 0 else a << min(-b, 64),
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def numbers(kind: Type) -> st.SearchStrategy[int]:
    near = [0, 1, 2, 3, -1, -2, kind.bits - 1, kind.bits, kind.low, kind.high, kind.high - 1]
    return st.sampled_from([one for one in near if kind.holds(one)]) | st.integers(
        kind.low, kind.high
    )


def value(node: Expr) -> int:
    """The value of ``node`` in an array, as in the interpreter."""
    parts = [np.asarray([part.value], part.type.dtype) for part in node.parts]
    with np.errstate(all="ignore"):
        found = value_of(node, *parts)
    assert found.dtype == node.type.dtype
    return int(found[0])


@pytest.mark.parametrize("kind", TYPES, ids=str)
@given(st.data())
def test_operators_are_exact(kind: Type, data: st.DataObject) -> None:
    for by in (*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARISONS):
        amount = Type(kind.bits, data.draw(st.booleans())) if by in SHIFTS else kind
        a, b = data.draw(numbers(kind)), data.draw(numbers(amount))
        node = Binary(by, Constant(a, kind), Constant(b, amount))
        assert value(node) == node.type.wrapped(INTEGERS[by](a, b)), (by, a, b, kind)


@given(st.data(), st.sampled_from(TYPES), st.sampled_from(TYPES))
def test_casts_and_bits_are_exact(data: st.DataObject, kind: Type, to: Type) -> None:
    a = data.draw(numbers(kind))
    one = Constant(a, kind)
    assert value(Cast(to, one)) == to.wrapped(a)
    assert value(Cast(to, one, saturates=True)) == min(max(a, to.low), to.high)
    bits = f"{a & (1 << kind.bits) - 1:0{kind.bits}b}"
    assert value(Unary("~", one)) == kind.wrapped(~a)
    assert value(Unary("abs", one)) == abs(a)
    assert value(Unary("popcount", one)) == bits.count("1")
    assert value(Unary("clz", one)) == len(bits) - len(bits.lstrip("0"))
    assert value(Unary("ctz", one)) == len(bits) - len(bits.rstrip("0"))
    condition = Constant(a & 1, BOOL)
    assert value(Cast(to, condition)) == a & 1
    assert value(Unary("~", condition)) == 1 - (a & 1)


IMAGE = np.random.default_rng(3).integers(0, 256, (7, 12), np.uint8)
SIZES = {"height": 7, "width": 12}


def output(body: str, arguments: str = "image: u8[height, width]") -> np.ndarray:
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    head = f"def made(height: size, width: size, {arguments}):"
    program = parsed(f"{head}\n{lines}\n    return out\n")
    return interpreted(program, SIZES, {"image": IMAGE}, {"gain": 3})["out"]


def test_sums_over_two_scans() -> None:
    found = output("""
for y in range(height):
    for x in range(width):
        out[y, x] = u32(image[y, x])
for y in ...:
    for r in range(1, width):
        out[y, r] += out[y, r - 1]
for x in ...:
    for r in range(1, height):
        out[r, x] += out[r - 1, x]
""")
    assert (found == IMAGE.astype(np.uint32).cumsum(0).cumsum(1)).all()


@pytest.mark.parametrize("total", ["u16", "i32", "u32", "i64", "u64"])
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_sums_of_products_are_exact(total: str, data: st.DataObject) -> None:
    """Whether doubles hold them or not: of windows, element by element, and of quads."""
    operand = data.draw(st.sampled_from(TYPES))
    rows, columns, depth = data.draw(st.sampled_from([(3, 2, 1), (40, 24, 8), (7, 1, 64)]))
    program = parsed(f"""
def sums(rows: size, columns: size, depth: size, a: {operand}[rows + 2, depth],
         b: {operand}[depth // 4 + 1, 4 * columns], taps: {operand}[3, depth]):
    for y, x in range(rows), range(columns):
        products[y, x] = {total}(1)
    for y, x, i, k in ..., ..., range(3), range(depth):
        products[y, x] += {total}(a[y + i, k]) * {total}(b[k // 4, 4 * x + k % 4])
    for y, k in range(rows), range(depth):
        filtered[y, k] = {total}(0)
    for y, k, i in ..., ..., range(3):
        filtered[y, k] += {total}(a[y + i, k]) * {total}(taps[i, k])
    return products, filtered
""")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shapes = {"a": (rows + 2, depth), "b": (depth // 4 + 1, 4 * columns), "taps": (3, depth)}
    inputs = {
        name: rng.choice(np.array([operand.low, operand.high, 1], operand.dtype), shape)
        for name, shape in shapes.items()
    }
    a, b, taps = (inputs[name].astype(object) for name in shapes)
    flat = np.array(
        [[b[k // 4, 4 * x + k % 4] for x in range(columns)] for k in range(depth)], object
    )
    windows = a[:rows], a[1 : rows + 1], a[2:]
    kind = Type.named(total)
    assert kind is not None
    wanted = {
        "products": 1 + sum(one.dot(flat) for one in windows),
        "filtered": sum(one * tap for one, tap in zip(windows, taps, strict=True)),
    }
    sizes = {"rows": rows, "columns": columns, "depth": depth}
    for name, made in interpreted(program, sizes, inputs, {}).items():
        wrapped = np.vectorize(kind.wrapped, otypes=[object])(wanted[name])
        np.testing.assert_array_equal(made.astype(object), wrapped)


def test_recurrence_steps_in_order() -> None:
    found = output("""
for y in range(height):
    for x in range(width):
        out[y, x] = i16(image[y, x])
for y in ...:
    for r in range(1, width):
        out[y, r] = (3 * out[y, r - 1] + out[y, r]) // 4
""")
    wanted = IMAGE.astype(np.int16)
    for x in range(1, 12):
        wanted[:, x] = (3 * wanted[:, x - 1] + wanted[:, x]) >> 2
    assert (found == wanted).all()


def test_histogram_of_what_a_condition_lets_pass() -> None:
    found = output("""
for bin in range(256):
    out[bin] = u16(0)
for y in range(height):
    for x in range(width):
        if image[y, x] > 99:
            out[i32(image[y, x])] += 1
""")
    assert (found == np.bincount(IMAGE[IMAGE > 99], minlength=256)).all()


def test_tuple_is_updated_together() -> None:
    """The place changes when the value does, and before it is overwritten."""
    found = output("""
for y in range(height):
    best[y], out[y] = u8(0), i32(-1)
for y in ...:
    for r in range(width):
        best[y], out[y] = max(best[y], image[y, r]), select(image[y, r] > best[y], r, out[y])
""")
    assert (found == IMAGE.argmax(1)).all()


def test_tuple_swaps_its_arrays() -> None:
    found = output("""
for y in range(height):
    for x in range(width):
        other[y, x], out[y, x] = image[y, x], u8(0)
for y in ...:
    for x in ...:
        other[y, x], out[y, x] = out[y, x], other[y, x]
""")
    assert (found == IMAGE).all()


def test_bounds_from_scalars_and_outer_indices() -> None:
    found = output(
        """
for y in range(height):
    for x in range(width):
        out[y, x] = i64(0)
for y in ...:
    for x in ...:
        for r in range(max(x - gain, 0), min(x + gain, width)):
            out[y, x] += i64(image[y, r])
""",
        "image: u8[height, width], gain: i32(1, 5)",
    )
    wide = IMAGE.astype(np.int64)
    wanted = [wide[:, max(x - 3, 0) : min(x + 3, 12)].sum(1) for x in range(12)]
    assert (found == np.stack(wanted, 1)).all()


def test_what_is_not_chosen_is_not_read() -> None:
    found = output("""
for y in range(height):
    for x in range(width):
        out[y, x] = select((x > 0) & (x < width - 1), image[y, x - 1] + image[y, x + 1], 7)
""")
    wanted = np.full_like(IMAGE, 7)
    wanted[:, 1:-1] = IMAGE[:, :-2] + IMAGE[:, 2:]
    assert (found == wanted).all()


def test_inputs_of_another_shape_are_refused() -> None:
    with pytest.raises(ProgramError, match="accepted: uint8 of"):
        output("for y in range(2):\n    out[y] = image[y, 0]", "image: u8[height, height]")


def test_products_are_not_kept_even_where_some_do_not_count() -> None:
    """Of rows that nothing depends on: intervals tell that more is read than is."""
    text = """
def products(a: u8[64, 256], b: u8[256, 256]):
    for y, x in range(64), range(256):
        sums[y, x] = 0
    for y, x, k in ..., ..., range(256):
        sums[y, x] += i32(a[y, k]) * i32(b[k, x])
    for y, x in range(61), range(256):
        output[y, x] = sums[y ^ 1, x]
    return output
"""
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 256, shape, np.uint8) for shape in ((62, 256), (256, 256)))
    bounds = bounded(parsed(text), {})
    tracemalloc.start()
    found = evaluated(bounds, {"a": a, "b": b}, {}, {"a": (0, 0)})["output"]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found == (a.astype(np.int32) @ b.astype(np.int32))[np.arange(61) ^ 1]).all()
    assert most < 64 * 256 * 256  # a byte for each product


def test_an_output_is_made_in_parts_where_stages_take_too_much() -> None:
    """Partial sums that are a stage of their own; edges and windows reach into other parts."""
    text = """
def partial(a: u8[256, 64], b: u8[256, 64]):
    for y, x, part in ..., ..., ...:
        some[y, x, part] = 0
    for y, x, part, k in ..., ..., ..., range(16):
        some[y, x, part] += i32(a[y, 4 * k + part]) * i32(b[x, 4 * k + part])
    for y, x in ..., ...:
        sums[y, x] = 0
    for y, x, part in ..., ..., range(4):
        sums[y, x] += some[y, x, part]
    for y, x in range(256), range(256):
        output[y, x] = sums[y, x] - sums[max(min(y + 1, 255), 0), x]
    return output
"""
    rng = np.random.default_rng(2)
    given = {"a": rng.integers(0, 256, (256, 64), np.uint8)}
    given["b"] = rng.integers(0, 256, (256, 64), np.uint8)
    firsts = {"a": (0, 0), "b": (0, 0)}
    (whole,) = evaluated_in_parts(parsed(text), given, {}, firsts).values()
    sums = given["a"].astype(np.int32) @ given["b"].astype(np.int32).T
    assert (whole == sums - sums[[*range(1, 256), 255]]).all()
    tracemalloc.start()
    (found,) = evaluated_in_parts(parsed(text), given, {}, firsts, 60000).values()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found == whole).all()
    assert most < 256 * 256 * 4 * 4  # bytes of the partial sums
