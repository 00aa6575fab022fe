"""The intrinsics that clang's headers declare, for people who misspelt one."""

from __future__ import annotations

import difflib
import re
from functools import cache
from typing import NamedTuple

from tuner.codegen import clang

_HEADERS = ("hvx_hexagon_protos.h", "hexagon_protos.h")
_DECLARED = re.compile(
    r"C Intrinsic Prototype:\s*(?P<signature>[^\n]*?\b(?P<name>Q6_\w+)\([^\n]*\))"
    r"|#if [^\n]*__(?:HVX|HEXAGON)_ARCH__ >= (?P<arch>\d+)|#(?P<end>endif)"
)
_NEAREST = 3


class Intrinsic(NamedTuple):
    """``signature`` is that of the header, ``arch`` the first that has it, such as 65."""

    signature: str
    arch: int


@cache
def known() -> dict[str, Intrinsic]:
    """All of them by name."""
    found: dict[str, Intrinsic] = {}
    for name in _HEADERS:
        arch = 0
        for match in _DECLARED.finditer((clang.headers() / name).read_text(errors="replace")):
            if match["arch"] or match["end"]:
                arch = int(match["arch"] or 0)
            else:
                found[match["name"]] = Intrinsic(match["signature"], arch)
    return found


def hint_about(name: str, arch: str) -> str:
    """Advice about the intrinsic ``name``, which clang does not know on ``arch`` (``v66``)."""
    there = known().get(name)
    if there is not None and there.arch > int(arch.removeprefix("v")):
        return f"{name} needs v{there.arch}, the target is {arch}"
    if there is not None:
        return f"{name} needs #include <hvx_hexagon_protos.h> or <hexagon_protos.h>"
    near = difflib.get_close_matches(name, known(), n=_NEAREST, cutoff=0.5)
    return f"no intrinsic {name}; nearest: {'; '.join(known()[one].signature for one in near)}"
