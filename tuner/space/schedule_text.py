"""Schedules out of the C++ of a ``.schedule.h``, as Halide and its autoschedulers write it.

That C++ declares Funcs by their places in the pipeline and loops by their names, and then calls
scheduling methods on them, one after another. Nothing else is understood: schedules written by hand
in a Generator use the whole of C++, and are compared with as objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tuner.errors import UserError
from tuner.space.directives import Directive, TailStrategy, read_directives

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PREPROCESSOR = re.compile(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_FUNC = re.compile(r"Func (\w+) = (?:get_pipeline\(\)|pipeline)\.get_func\((\d+)\)")
_LOOP = re.compile(r'R?Var (\w+)\("([^"]+)"\)')
_CALLS = re.compile(r"(\w+)((?:\s*\.\s*\w+\([^()]*(?:\([^()]*\)[^()]*)*\))+)")
_CALL = re.compile(r"\.\s*(\w+)\(((?:[^()]|\([^()]*\))*)\)")
_IN_ORDER = re.compile(
    r"(\w+)\.specialize\((?:::Halide::)?cast<int>\((?:::Halide::)?cast<uint8_t>\("
    r"(\w+)\(([-\d, ]+)\)\)\) \* .* % 4 == 2\)"
)
_PREFETCH = re.compile(r"(\w+)\.prefetch\((\w+)\.value\(\)[^,]*, (\w+), \w+, (\d+)\)")
"""Two calls as :mod:`tuner.codegen.halide.schedule` writes them."""
_SKIPPED = re.compile(r"^(using |Target |Pipeline |\}|inline |namespace |ScheduleParams)")


def directives_in(text: str, place: str = "schedule") -> tuple[Directive, ...]:
    """The directives that ``text``, out of the file ``place``, calls; ``@N`` names the Func that is
    ``get_func(N)``. ``UserError`` names the first statement that is not understood."""
    plain = _PREPROCESSOR.sub("", _COMMENT.sub("", text))
    body = plain[plain.index("{", plain.find("apply_schedule")) + 1 :] if "{" in plain else plain
    funcs: dict[str, str] = {}
    loops: dict[str, str] = {}
    found: list[dict[str, Any]] = []
    for statement in (" ".join(part.split()) for part in body.split(";")):
        if func := _FUNC.fullmatch(statement):
            funcs[func[1]] = f"@{func[2]}"
        elif loop := _LOOP.fullmatch(statement):
            loops[loop[1]] = loop[2]
        elif order := _IN_ORDER.fullmatch(statement):
            at = [int(part) for part in order[3].split(",")]
            args = [funcs[order[2]], *at]
            found.append({"func": funcs[order[1]], "op": "keep_in_order", "args": args})
        elif fetch := _PREFETCH.fullmatch(statement):
            args = [funcs[fetch[2]], loops[fetch[3]], int(fetch[4])]
            found.append({"func": funcs[fetch[1]], "op": "prefetch", "args": args})
        elif statement and not _SKIPPED.match(statement):
            calls = _CALLS.fullmatch(statement)
            if calls is None or calls[1] not in funcs:
                raise _refused(place, statement)
            found += _called(place, statement, funcs[calls[1]], calls[2], {**loops, **funcs})
    return read_directives(found)


def _called(
    place: str, statement: str, func: str, calls: str, names: dict[str, str]
) -> Iterator[dict[str, Any]]:
    update = None
    for call in _CALL.finditer(calls):
        texts = [part.strip(" {}") for part in call[2].split(",") if part.strip(" {}")]
        if call[1] == "update":
            update = int(texts[0]) if texts else 0
            continue
        args = [_argument(place, statement, text, names) for text in texts]
        yield {"func": func, "op": call[1], "args": args, "update": update}


def _argument(place: str, statement: str, text: str, names: dict[str, str]) -> Any:
    if text in names:
        return names[text]
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    kind, _, value = text.rpartition("::")
    if kind.endswith("TailStrategy") and value in list(TailStrategy):
        return {"tail": value}
    if kind.endswith("MemoryType"):
        return value
    raise _refused(place, statement)


def _refused(place: str, statement: str) -> UserError:
    return UserError(
        f"{place}: '{statement[:80]}' is not understood",
        accepted="a .schedule.h of Halide: Func F = pipeline.get_func(N), Var and RVar, and calls "
        "of scheduling methods with these, numbers and strategies",
        next_step="give the object (FILE.o) that the schedule makes as the baseline",
    )
