"""Expressions hold arithmetic and comparisons, and nothing that could run."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.errors import UserError
from tuner.space import Expression


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a % b == 0", {"a": 9, "b": 4}, False),
        ("a // 2 + 1 > b and not c == 'x'", {"a": 8, "b": 4, "c": "y"}, True),
        ("c in ('x', 'y') or a < 0", {"a": 1, "c": "y"}, True),
        ("(a if c == 'x' else b) <= 4", {"a": 9, "b": 4, "c": "y"}, True),
        ("a % b == 0", {"a": 8, "b": 0}, False),
        ("tile.x > 2 * a.b.c", {"tile.x": 8, "a.b.c": 2}, True),
    ],
)
def test_evaluates_over_given_values(text, values, expected):
    assert Expression(text).holds(values) is expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "(a + b).c == 1",
        "lambda: 1",
        "f'{a}' == 'x'",
        "(a := 3) > 1",
        "1.5 < a",
        "a" * 1001,
        "(" * 500,
    ],
)
def test_refuses_what_is_not_a_condition(text):
    with pytest.raises(UserError):
        Expression(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_as_the_users_error(text):
    with contextlib.suppress(UserError):
        assert Expression(text).text == text
