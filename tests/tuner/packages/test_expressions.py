"""Arithmetic of packages: the same value here and in C, and nothing but arithmetic."""

from __future__ import annotations

import pytest

from tuner.errors import UserError
from tuner.packages.expressions import arithmetic

NAMES = {"m": 300, "ROWS": 4, "FORM": "DIRECT"}


@pytest.mark.parametrize(
    ("text", "value", "in_c"),
    [
        ("(m + 127) // 128 * 128", 384, "(((m + 127) / 128) * 128)"),
        ("min(m, ROWS * 100)", 300, "(m < 400 ? m : 400)"),
        ("max(m - 1, 7) % 5", 4, "(((m - 1) > 7 ? (m - 1) : 7) % 5)"),
    ],
)
def test_a_shape_has_one_value_here_and_in_c(text: str, value: int, in_c: str) -> None:
    assert arithmetic(text).value(NAMES) == value
    assert arithmetic(text).in_c({"ROWS": 4}) == in_c


@pytest.mark.parametrize(
    "text",
    [
        *(
            "m.__class__",
            "m[0]",
            "().__class__",
            "lambda: 0",
            "m ** 9",
            "m / 2",
            "f'{m}'",
            "open('x')",
        ),
        *("min(m)", "min(m, 1, 2)", "[m for m in m]", "1 if m else 2", "m := 3", "True", "1.5", ""),
        *("m < 3", "1 << 99", "9" * 30, "(" * 400),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError) as refused:
        arithmetic(text)
    assert refused.value.accepted
