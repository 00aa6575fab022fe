"""Reading JSON that a contained process wrote: believed in no point. Each raises ``ValueError``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

_NAME = re.compile(r"[A-Za-z0-9_.$]{1,200}")
_TYPE = re.compile(r"[a-z]{3,8}[0-9]{0,3}(x[0-9]{1,5})?")

T = TypeVar("T")


def fields(data: Any, names: set[str]) -> dict[str, Any]:
    """An object with exactly these fields."""
    if not isinstance(data, dict) or set(data) != names:
        raise ValueError(f"not an object with {', '.join(sorted(names))}")
    return data


def several(data: Any, most: int, read: Callable[[Any], T]) -> tuple[T, ...]:
    """A list of at most ``most``, each read by ``read``."""
    if not isinstance(data, list | tuple):
        raise ValueError("not a list")
    if len(data) > most:
        raise ValueError(f"{len(data)} of what may be at most {most}")
    return tuple(read(one) for one in data)


def a_name(data: Any) -> str:
    """A name as Halide makes them."""
    if not isinstance(data, str) or not _NAME.fullmatch(data):
        raise ValueError(f"a name is {repr(data)[:60]}")
    return data


def a_type(data: Any) -> str:
    """A type as Halide prints it."""
    if not isinstance(data, str) or not _TYPE.fullmatch(data):
        raise ValueError(f"a type is {repr(data)[:60]}")
    return data


def a_count(data: Any, most: int) -> int:
    """An integer from 0 to ``most``."""
    if not isinstance(data, int) or isinstance(data, bool) or not 0 <= data <= most:
        raise ValueError(f"a count is {repr(data)[:60]}")
    return data
