"""Reading Halide's printed expressions."""

from __future__ import annotations

import pytest

from tuner.codegen.halide.uploads.expressions import (
    arguments_of,
    bits_of,
    calls_of,
    chooses,
    follows_loops,
    looks_up,
    reads_apart,
)

KNOWN = frozenset({"image", "table_im", "f"})


def test_calls_are_found_with_their_arguments_however_nested():
    text = "uint16((uint8)f(x + 1, y)) + uint16((uint8)table_im(int32((uint8)f(x, y))))"
    calls = list(calls_of(text))
    assert ("f", ("x + 1", "y")) in calls
    assert ("table_im", ("int32((uint8)f(x, y))",)) in calls
    assert arguments_of("(a, g(b, c), (d, e))", 0) == ("a", "g(b, c)", "(d, e)")
    assert bits_of(text) == {8, 16, 32}


@pytest.mark.parametrize(
    ("index", "follows"),
    [
        ("x - 1", True),
        ("r$x", False),
        ("max(min(likely(x), 255), 0)", False),
        ("int32((uint8)f(x, y))", False),
    ],
)
def test_an_index_follows_its_loops_unless_something_bounds_it(index, follows):
    assert follows_loops(index, KNOWN, frozenset({"r$x"})) is follows


def test_what_is_read_beside_its_reader_or_looked_up_is_told():
    assert not reads_apart("f(x, y - 1) + f(x, y)", "f", ["x"])
    assert reads_apart("f(x, y) + f(x + 1, y)", "f", ["x"])
    assert reads_apart("f(r$x, y)", "f", ["x"])
    assert looks_up("table_im(int32((uint8)f(x, y)))", KNOWN)
    assert not looks_up("table_im(max(min(x, 255), 0))", KNOWN)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(uint8)mux(c, (uint8)f(x), (uint8)g(x))", True),
        ("select((c == 0), f(x), g(x))", True),
        ("f(x, y, c) + uint8(c)", False),
    ],
)
def test_what_chooses_among_values_is_found(text, found):
    assert chooses(text, "c") == found
