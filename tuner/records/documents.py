"""Plain records as JSON documents, and back: read strictly, as what is stored may be anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

_Record = TypeVar("_Record")
_JSON: dict[type, tuple[type, ...]] = {float: (float, int)}


def read_record(kind: type[_Record], document: Any, what: str = "the record") -> _Record:
    """The dataclass ``kind`` from its ``asdict``, as it is or after a way through JSON.

    Fields are of str, int, float, bool, literals, other dataclasses, tuples of any length or
    mappings from texts of these, or ``None`` where the type allows it. Raises ``ValueError`` that
    names the field of ``what`` whose value is of another type, missing or unknown.
    """
    types: dict[str, Any] = _types(cast("Any", kind))
    if not isinstance(document, dict) or document.keys() != types.keys():
        raise ValueError(f"{what} lacks a field or has an unknown one")
    return kind(**{name: _value(types[name], document[name], f"{what}, {name}") for name in types})


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in fields(kind)}


def _value(wanted: Any, value: Any, what: str) -> Any:
    origin, of = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        if value is None and NoneType in of:
            return None
        (wanted,) = (one for one in of if one is not NoneType)
        return _value(wanted, value, what)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"{what} is {value!r:.80}, not a list")
        return tuple(_value(of[0], one, f"{what}.{n}") for n, one in enumerate(value))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise ValueError(f"{what} is {value!r:.80}, not an object")
        return {name: _value(of[1], one, f"{what}.{name:.80}") for name, one in value.items()}
    if is_dataclass(wanted) and isinstance(wanted, type):
        return read_record(wanted, value, what)
    if origin is Literal:
        if not isinstance(value, str) or value not in of:
            raise ValueError(f"{what} is {value!r:.80}, not one of {', '.join(of)}")
        return value
    if not isinstance(value, _JSON.get(wanted, (wanted,))) or (
        isinstance(value, bool) and wanted is not bool
    ):
        raise ValueError(f"{what} is {value!r:.80}, not {wanted.__name__}")
    return value
