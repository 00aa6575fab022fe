"""The text of a program says all of it, and means nothing else."""

from __future__ import annotations

import pickle
import textwrap

import pytest
from hypothesis import HealthCheck, given, settings

import tuner.program
from tests.tuner.program.drawn import programs
from tuner.program.expressions import ProgramError
from tuner.program.loops import Program
from tuner.program.parsing import parsed
from tuner.program.printing import printed

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=20, deadline=None, suppress_health_check=SLOW_DRAWS)
@given(programs())
def test_text_round_trips(program: Program) -> None:
    text = printed(program)
    assert parsed(text) == program
    assert printed(parsed(text)) == text
    assert pickle.loads(pickle.dumps(program)) == program  # noqa: S301 - its own bytes


def test_page_of_the_package_is_a_program() -> None:
    page = tuner.program.__doc__ or ""
    text = textwrap.dedent(page[page.index("    def ") : page.index("Its nodes")])
    program = parsed(text)
    assert program.outputs == ("output", "counts")
    assert parsed(printed(program)) == program


def test_numbers_have_names_and_loops_one_line() -> None:
    short = """
def scaled(size: size, image: u8[4 * size]):
    for y, x in range(step), range(size):
        out[y, x] = i16(image[4 * x + y]) * by
    for y, x in ...:
        out[y, x] += by
    return out
"""
    long = """
def scaled(size: size, image: u8[4 * size]):
    for y in range(4):
        for x in range(size):
            out[y, x] = i16(image[4 * x + y]) * -3
    for y in ...:
        for x in ...:
            out[y, x] += -3
    return out
"""
    assert parsed(short, {"step": 4, "by": -3}) == parsed(long)
    with pytest.raises(ProgramError, match="line 3"):
        parsed(short.replace("range(step), range(size)", "range(4), range(2), range(3)"))


def test_shared_parts_are_written_once() -> None:
    """Else the text of a sorting network would have a line of megabytes."""
    value = "image[x]"
    lines = [f"t{n} = max({value if n == 0 else f't{n - 1}'}, 1) * " for n in range(60)]
    doubled = [line + line.split(" = ")[1].removesuffix(" * ") for line in lines]
    body = "\n".join(f"        {line}" for line in doubled)
    text = f"def deep(image: u8[64]):\n    for x in range(64):\n{body}\n        out[x] = t59\n"
    program = parsed(f"{text}    return out\n")
    again = printed(program)
    assert parsed(again) == program
    assert len(again) < 10_000


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("out[x] = image[x] + i16(1)", "+ of u8 and i16"),
        ("out[x] = image[x, x]", "rank 2"),
        ("out[x] = other[x]", "line 3"),
        ("out[x] = image[x] if x else image[x]", "line 3"),
        ("out[y] = image[x]", "line 3"),
        ("out[x] = (image[x] < 3)", "condition"),
        ("out[x] = u8(300)", "300 is no u8"),
        ("out[x] = image[image[x]]", "index of u8"),
        ("out[x] = " + "(" * 300 + "1" + ")" * 300, "nest"),
        ("out[x], more[x] = image[x]", "line 3"),
        ("größer[x] = image[x]", "is no name"),
    ],
)
def test_what_means_nothing_is_refused(line: str, told: str) -> None:
    text = f"def bad(width: size, image: u8[width]):\n    for x in range(width):\n        {line}\n"
    with pytest.raises(ProgramError, match=r".*") as refused:
        parsed(f"{text}    return out\n")
    assert told in str(refused.value)
