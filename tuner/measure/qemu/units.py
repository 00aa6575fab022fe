"""The units of HVX that an instruction takes.

A packet has one load, one store and four pipes: two multipliers, a shifter and a permuter. Each
kind of arithmetic says which pipes it may run on, and register pairs take two. (V66 HVX PRM,
"Resource usage"; the ``CVI_*`` stages of LLVM's itineraries of hexagonv66, HexagonDepIICHVX.td, to
which its assembler holds packets. Silicon agrees where it was measured: eight ``vrmpy`` that
accumulate vectors by vectors take eight packets, eight ``vrmpy`` and ``vadd`` four; docs/truth.md.)
LLVM puts two of those, and a few others that take both multipliers, in one packet from v69 on: such
a packet takes all it has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

VECTOR_LOAD, VECTOR_STORE = "vector load", "vector store"
GATHER, SCATTER = "vector gather", "vector scatter"
PERMUTE, SHIFT, MULTIPLY = "vector permute", "vector shift", "vector multiply"
ANY_PIPE = "vector arithmetic"
"""The four pipes together; what takes one of the three above takes one of these, too."""

_ACCESS = {
    VECTOR_LOAD: VECTOR_LOAD,
    GATHER: VECTOR_LOAD,
    VECTOR_STORE: VECTOR_STORE,
    SCATTER: VECTOR_STORE,
}
_PAIR = re.compile(r"\b[vr]\d+:\d+")
_WRITTEN = re.compile(r"^\S+ [-+|&^]?= ")
_ACCUMULATES = re.compile(r"^\S+ [-+|&^]= ")
_SOURCE = re.compile(r"\b([vr])\d+\.u?([bhw])\b")
_OF_HALF_THE_LANES = re.compile(r"\bvmpyieo\(|\bvmpye\(v\d+\.uh,")
_OF_PREDICATES = re.compile(r"^q\d = (?:and|or|xor)\(|^q\d\.\w+ = vshuffe\(")
_SCALAR = re.compile(r"[(,]r\d")


def units_of(body: str, kind: str) -> Mapping[str, int]:
    """How many of each unit ``body`` takes: an instruction without its condition, as
    :class:`~tuner.measure.qemu.disassembly.Decoded` has it, of that ``kind``."""
    if re.match(r"vw?hist", body):
        return _with_any({PERMUTE: 1, SHIFT: 1, MULTIPLY: 2})
    if not kind.startswith("vector "):
        return {}
    if kind in _ACCESS:
        return {_ACCESS[kind]: 1, **_of_access(body)}
    value = _WRITTEN.sub("", body)
    if kind == SHIFT:
        return _with_any({SHIFT: 1, PERMUTE: int("vasrinto(" in value)})
    if kind == MULTIPLY or re.match(r"vlut4\(|v6mpy\(", value):
        return _with_any({MULTIPLY: _multipliers(body, value)})
    if kind == PERMUTE or value.startswith("vsetq"):
        both = _PAIR.search(body) or _ACCUMULATES.match(body) or value == body
        return _with_any({PERMUTE: 1, SHIFT: int(bool(both))})
    if _SCALAR.search(value):  # vsplat, vinsert, vand with a predicate: through a multiplier
        return _with_any({MULTIPLY: 1})
    return {ANY_PIPE: 2 if _PAIR.search(body) or _OF_PREDICATES.match(body) else 1}


def _with_any(pipes: Mapping[str, int]) -> dict[str, int]:
    return dict(+Counter({**pipes, ANY_PIPE: sum(pipes.values())}))


def _of_access(body: str) -> dict[str, int]:
    """A pipe carries the vector, unless it comes from or goes to another instruction of the
    packet; unaligned ones pass the permuter."""
    if "vmemu(" in body:
        return _with_any({PERMUTE: 1})
    if ".tmp = " in body or body.endswith(".new"):
        return {}
    return {ANY_PIPE: 2 if _PAIR.search(body) else 1}


def _multipliers(body: str, value: str) -> int:
    """Two for register pairs, for three vectors to read, and for more products of bytes than a
    vector has bytes: all of halfwords and words, unless only every second halfword counts."""
    sources = _SOURCE.findall(value)
    vectors = sum(bank == "v" for bank, _ in sources)
    of_halves = "mpy" in value and all(size != "b" for _, size in sources)
    return 1 + bool(
        _PAIR.search(body)
        or (vectors > 1 and _ACCUMULATES.match(body))
        or (of_halves and not _OF_HALF_THE_LANES.search(value))
    )
