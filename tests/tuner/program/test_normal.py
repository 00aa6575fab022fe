"""Spellings of one algorithm meet in one form, which means the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.tuner.program.drawn import arguments_of, programs
from tuner.program.interpretation import interpreted
from tuner.program.loops import Program
from tuner.program.normal import normalized
from tuner.program.parsing import parsed
from tuner.program.printing import printed

SIZES = {"height": 16, "width": 32}
OUTPUT = "for y in range(height):\n    for x in range(width):\n        out[y, x] = {}"


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(1, 9), st.integers(1, 17), st.integers(0, 99))
def test_normal_form_means_the_same(program: Program, height: int, width: int, seed: int) -> None:
    sizes = {"height": height, "width": width}
    normal = normalized(program, sizes)
    note(f"{printed(program)}\n{printed(normal)}")
    inputs, scalars = arguments_of(program, sizes, seed)
    wanted = interpreted(program, sizes, inputs, scalars)
    for name, values in interpreted(normal, sizes, inputs, scalars).items():
        np.testing.assert_array_equal(values, wanted[name], err_msg=name, strict=True)
    assert normalized(normal, sizes) == normal


def normal_text(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    head = "def made(height: size, width: size, a: u8[height, width], b: u8[height, width]):"
    return printed(normalized(parsed(f"{head}\n{lines}\n    return out\n"), SIZES))


def spelled(value: str) -> str:
    """A body with that output, of the bytes A and B."""
    return OUTPUT.format(value.replace("A", "a[y, x]").replace("B", "b[y, x]"))


@pytest.mark.parametrize(
    "spellings",
    [
        ("u8((u16(A) + u16(B) + 1) >> 1)", "u8((i16(A) + 1 + i16(B)) // 2)"),
        ("u16(A) + u16(B) * 2 + u16(A)", "u16((i32(B) + i32(A)) << 1)"),
        (
            "u8_sat(i16(A) * 2)",
            "u8(min(u16(A) << 1, 255))",
            "u8(max(min(i32(A) + i32(A), 255), 0))",
        ),
        ("absd(A, B)", "u8(abs(i16(A) - i16(B)))", "u8(abs(i32(B) - i32(A)))"),
        ("min(A, B)", "select(A < B, A, B)", "select(A >= B, B, A)", "min(B, min(A, B))"),
        ("A % 8", "A & 7", "u8(u32(A) % 8)"),
        ("select(A < 9, B, A)", "select(~(A < 9), A, B)", "select(A <= 8, B, A)"),
        ("i16(A) - i16(B)", "0 - (i16(B) - i16(A))", "i16(i32(A) - i32(B))"),
        ("u8((u16(A) * u16(B)) >> 8)", "u8(i32(B) * i32(A) // 256)"),
        ("a[y, max(min(x - 1, width - 1), 0)]", "a[y, min(max(x - 1, 0), width - 1)]"),
        ("select((A < 3) & (B < 4), A, B)", "select((B < 4) & (A < 3), A, B)"),
        ("u8(~A)", "u8(255 - u16(A))", "u8(255 - i32(A))"),
    ],
)
def test_spellings_meet(spellings: tuple[str, ...]) -> None:
    texts = {normal_text(spelled(one)) for one in spellings}
    assert len(texts) == 1, "\n".join(texts)


def test_what_differs_does_not_meet() -> None:
    values = ["u8((u16(A) + u16(B)) >> 1)", "(A + B) >> 1", "u8((u16(A) + u16(B) + 1) >> 1)"]
    assert len({normal_text(spelled(one)) for one in values}) == 3


SUM = """
for y in ...:
    for x in ...:
        wide[y, x] = {0}(a[y, x]) * 3
for y in range(height):
    out[y] = u32(0)
for y in ...:
    for r in range(width):
        {1}
""".strip()


def test_widths_of_stages_and_orders_of_sums_meet() -> None:
    one = SUM.format("u16", "out[y] += u32(wide[y, r]) * u32(b[y, r])")
    other = SUM.format("i32", "out[y] = u32(b[y, r]) * u32(wide[y, r]) + out[y]")
    text = normal_text(one)
    assert text == normal_text(other)
    assert "out[y] += " in text


COPIED = """
for v in ...:
    for u in ...:
        padded[v, u] = a[max(min(v, height - 1), 0), max(min(u, width - 1), 0)]
for v in ...:
    for u in ...:
        again[v, u] = padded[v, u + 1]
for y in range(height):
    for x in range(width):
        out[y, x] = again[y - 1, x] - padded[y, 2 * x]
""".strip()


def test_stages_that_copy_are_none() -> None:
    first = "a[max(min(y - 1, height - 1), 0), max(min(x + 1, width - 1), 0)]"
    other = "a[max(min(y, height - 1), 0), max(min(2 * x, width - 1), 0)]"
    assert normal_text(COPIED) == normal_text(OUTPUT.format(f"{first} - {other}"))


PLANES = """
for c in range(3):
    for y in range(height):
        for x in range(8):
            out[c, y, x] = {}
""".strip()


def test_channels_chosen_by_number_are_elements() -> None:
    """Interleaved channels to planes, as an index, a choice, and one in another order."""
    first, second, third = (f"a[y, {index}]" for index in ("3 * x", "x * 3 + 1", "2 + 3 * x"))
    spellings = [
        "a[y, 3 * x + c]",
        f"select(c == 0, {first}, select(c == 1, {second}, {third}))",
        f"select(c == 2, {third}, select(c != 0, {second}, {first}))",
    ]
    texts = {normal_text(PLANES.format(one)) for one in spellings}
    assert len(texts) == 1, "\n".join(texts)
    other = f"select(c == 0, {second}, select(c == 1, {first}, {third}))"
    assert normal_text(PLANES.format(other)) not in texts
