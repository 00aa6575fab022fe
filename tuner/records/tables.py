"""TOML files that people write, read into models: the first mistake is told by its place."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from tuner.errors import UserError

Keys = Sequence[str | int]
Fault = tuple[Keys, str, str]
"""The keys that lead to a value, why it is wrong, what is accepted."""
_Model = TypeVar("_Model", bound=BaseModel)


class Strict(BaseModel):
    """A table whose keys and types are exactly those."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read_tables(kind: type[_Model], text: str, place: str, see: str = "") -> _Model:
    """The file ``place``, which has this ``text``, as a ``kind``.

    Raises ``UserError`` for the first thing that is wrong: file, line, key, value and what is
    accepted. ``see`` is its next step.
    """
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep nesting
        raise UserError(
            f"{place} is not TOML: {error}", accepted="TOML 1.0", next_step=see
        ) from None
    try:
        return kind.model_validate(tables)
    except ValidationError as error:
        raise _refused(kind, tables, error, text, place, see) from None


def _refused(
    kind: type[BaseModel],
    tables: Mapping[str, Any],
    error: ValidationError,
    text: str,
    place: str,
    see: str,
) -> UserError:
    errors = error.errors()  # a key that is misspelt is missing, too
    first = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    keys = _keys_in(tables, first["loc"])
    given = first.get("input")
    if first["type"] == "missing":
        about = _about(kind, first["loc"])
        return fault_at(keys[:-1], text, place, f"{_dotted(keys)} is missing", about, see)
    if first["type"] == "extra_forbidden":
        about = _about(kind, first["loc"])
        return fault_at(keys, text, place, f"unknown key {_dotted(keys)}", about, see)
    if first["type"].startswith("union_tag"):
        tags = first["ctx"].get("expected_tags") or first["ctx"].get("discriminator", "kind")
        chosen = given.get("kind") if isinstance(given, dict) else given
        why = f"{_dotted(keys)}.kind = {chosen!r}"
        return fault_at([*keys, "kind"], text, place, why, str(tags), see)
    shown = json.dumps(given, default=str)
    shown = shown if len(shown) <= 80 else f"{shown[:77]}..."
    accepted = first["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return fault_at(keys, text, place, f"{_dotted(keys)} = {shown}", accepted, see)


def _keys_in(tables: Any, where: Keys) -> list[str | int]:
    """``where`` without the names of members of unions, which models put among the keys."""
    found: list[str | int] = []
    here = tables
    for number, key in enumerate(where):
        there = isinstance(here, dict) and key in here
        if there or (isinstance(here, list) and isinstance(key, int)):
            here = here[key]
        elif not (isinstance(here, dict) and number == len(where) - 1):
            continue
        found.append(key)
    return found


def _dotted(keys: Keys) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).lstrip(".")


def _about(kind: type[BaseModel], keys: Keys) -> str:
    """The keys of the table that the last of ``keys`` stands in."""
    whole = here = kind.model_json_schema()
    for key in keys[:-1]:
        here = here.get("items", {}) if isinstance(key, int) else _below(here, key)
        while "$ref" in here:
            here = whole["$defs"][here["$ref"].rpartition("/")[2]]
    return ", ".join(here.get("properties", {})) or "no key there"


def _below(here: dict[str, Any], key: str) -> dict[str, Any]:
    if "discriminator" in here:
        return {"$ref": here["discriminator"]["mapping"][key]}
    others = [here.get("additionalProperties"), *here.get("patternProperties", {}).values()]
    found = here.get("properties", {}).get(key)
    return found or next((one for one in others if isinstance(one, dict)), {})


def fault_at(
    keys: Keys, text: str, place: str, why: str, accepted: str, next_step: str = ""
) -> UserError:
    """The error for the value at ``keys`` of the ``text`` in the file ``place``."""
    line = line_of(text, keys)
    where = f"{place}:{line}" if line else place
    named = _dotted(keys)
    shown = "" if not named or named in why else f"{named}: "
    return UserError(f"{where}: {shown}{why}", accepted=accepted, next_step=next_step)


_HEADER = re.compile(r"\s*(\[\[?)\s*([\w.\s\"'-]+?)\s*\]")


def line_of(text: str, keys: Keys) -> int:
    """The number of the line that sets the value at ``keys``, or of the table it would stand in;
    0 if that is the file itself."""
    counts: dict[str, int] = {}
    table, best, depth = [], 0, 0
    for number, line in enumerate(text.splitlines(), 1):
        header = _HEADER.match(line)
        if header is not None:
            named = [part.strip(" \"'") for part in header[2].split(".")]
            table = list[str | int](named)
            if header[1] == "[[":
                counts[header[2]] = counts.get(header[2], -1) + 1
                table.append(counts[header[2]])
            found: list[str | int] = table
        else:
            key = re.match(r"\s*([\w-]+)\s*=", line)
            if key is None:
                continue
            found = [*table, key[1]]
        if found[: len(keys)] == list(keys) and best == 0:
            best = number  # a table in the one that is meant
        if len(found) <= len(keys) and list(keys[: len(found)]) == found and len(found) > depth:
            best, depth = number, len(found)
    return best
