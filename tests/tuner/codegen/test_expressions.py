"""Reading Halide's printed expressions."""

from __future__ import annotations

import pytest

from tuner.codegen.halide.uploads.expressions import (
    arguments_of,
    bits_of,
    calls_of,
    combination,
    follows_loops,
    is_dot,
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
        ("x*2 + r$x", True),
        ("r$x", False),
        ("3", False),
        ("max(min(likely(x), 255), 0)", False),
        ("min(x, 255)", True),
        ("int32((uint8)f(x, y))", False),
    ],
)
def test_an_index_follows_its_loops_unless_something_bounds_it(index, follows):
    assert follows_loops(index, KNOWN, frozenset({"r$x"})) is follows


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("((uint16)f(x, y) + (uint16((uint8)g(x + r$x, y))*uint16(3)))", "sum"),
        ("max((uint8)f(x), (uint8)image(r$x, x))", "max"),
        ("min((uint8)image(r$x, x), (uint8)f(x))", "min"),
        ("((uint16)f(x, r$x - 1) - uint16((uint8)g(x, r$x)))", ""),
        ("(uint16)ff(x) + uint16(1)", ""),
        ("(((uint32)f(x)*(uint32)2) + (uint32)1)", ""),
    ],
)
def test_how_an_update_joins_a_term(value, found):
    assert combination(value, "f") == found


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("((uint32)s(o) + (uint32((uint8)a_im(k$x))*uint32((uint8)w_im(o, k$x))))", True),
        ("((int32)s(o) + (int32((int8)a_im(k$x))*int32((uint8)w_im(o, k$x))))", True),
        ("((uint32)s(o) + (uint32((uint16)a_im(k$x))*uint32((uint8)w_im(o, k$x))))", False),
        ("((uint32)s(o) + uint32((uint8)a_im(k$x)))", False),
    ],
)
def test_products_of_bytes_are_told(value, found):
    assert is_dot(value) is found
