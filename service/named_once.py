"""Parameters of queries that no schema refuses: named more than once, or where a route has none."""

from __future__ import annotations

from collections import Counter

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant

from service.http_errors import HttpError


async def _require_known_and_named_once(request: Request) -> None:
    given = request.query_params.multi_items()
    counts = Counter(name for name, _ in given if name != _A_LIST)
    name, times = max(counts.items(), key=lambda one: one[1], default=("", 0))
    if times > 1:
        raise HttpError(422, f"'{name[:100]}' is given {times} times", accepted="each one once")
    if given and not _takes_some(request.scope["route"].dependant):
        raise HttpError(
            422, f"{name[:100]}: no such field in this query", next_step="leave the query out"
        )


def _takes_some(dependant: Dependant) -> bool:
    return bool(dependant.query_params) or any(map(_takes_some, dependant.dependencies))


_A_LIST = "param"
"""The one parameter that is a list on every route that takes it."""

KNOWN_AND_NAMED_ONCE = Depends(_require_known_and_named_once)
"""422 for a query that names a parameter twice: which of the values was meant would be a guess; and
for any parameter on a route that takes none."""
