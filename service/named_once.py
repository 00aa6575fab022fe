"""Parameters of a query that are named more than once."""

from __future__ import annotations

from collections import Counter

from fastapi import Depends, Request

from service.problem_details import HttpError


async def _require_named_once(request: Request) -> None:
    counts = Counter(name for name, _ in request.query_params.multi_items() if name != _A_LIST)
    name, times = max(counts.items(), key=lambda one: one[1], default=("", 0))
    if times > 1:
        raise HttpError(422, f"'{name[:100]}' is given {times} times", accepted="each one once")


_A_LIST = "param"
"""The one parameter that is a list on every route that takes it."""

NAMED_ONCE = Depends(_require_named_once)
"""422 for a query that names a parameter twice: which of the values was meant would be a guess."""
