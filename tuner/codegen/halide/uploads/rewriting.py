"""Pipelines with the same values, written as Halide 21 compiles them.

Bytes side by side that are widened and added (``u16(f(2 * x)) + u16(f(2 * x + 1))``, the mean of
2x2 pixels) it makes a horizontal sum of, and then a call that its HVX runtime lacks
(``Function 'halide.hexagon.add_2mpy.vub.ub' not found``). It does not see through the distance of
one of them to zero, which costs an instruction.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from tuner.codegen.halide.uploads.serialized import Node, read, written

_BYTE = ("uint", 8)
_SUMS = ("Add", "Sub")


def rewritten(data: bytes) -> bytes:
    """``data``, or another pipeline that has the same values. ``data`` must have been checked."""
    root, order = read(data)
    inner = {id(node[side]) for node in order if node.kind in _SUMS for side in ("a", "b")}
    found = False
    for node in order:
        if node.kind in _SUMS and id(node) not in inner:
            for term in {id(term): term for term in _beside(node)}.values():
                term.fields["value"] = _distance_to_zero(term["value"])
                found = True
    return written(root) if found else data


def _beside(total: Node) -> Iterator[Node]:
    """One of two terms after one another that widen bytes side by side at multiples."""
    for one, other in pairwise(_terms(total)):
        places = _widened(one), _widened(other)
        if places[0] and places[1] and places[0][0] == places[1][0]:
            offsets = places[0][1], places[1][1]
            if abs(offsets[0] - offsets[1]) == 1:
                # The odd one: of three in a row, that in the middle or both others.
                yield other if offsets[1] % 2 else one


def _widened(term: Node) -> tuple[Hashable, int] | None:
    """The row of the byte that a term widens, and what is added to its multiple along the row;
    ``None`` if it is anything else."""
    call = term["value"] if term.kind == "Cast" and _type(term)[1] > _BYTE[1] else None
    if call is None or call.kind != "Call" or _type(call) != _BYTE or not call["args"]:
        return None
    inner, *outer = call["args"]
    if "Mul" not in _written_out(inner):
        return None
    return (call["name"], *(tuple(_written_out(index)) for index in outer)), _offset(inner)


def _terms(total: Node) -> Iterator[Node]:
    waiting = [total]
    while waiting:
        node = waiting.pop()
        if node.kind in _SUMS:
            waiting += [node["a"], node["b"]]
        else:
            yield node


def _type(node: Node) -> tuple[str, int]:
    return node["type"]["code"], node["type"]["bits"]


def _offset(index: Node) -> int:
    """The number that is added to what an index is made of."""
    sign = {"Add": 1, "Sub": -1}.get(index.kind)
    if sign and index["b"].kind == "IntImm":
        return int(sign * index["b"]["value"])
    return int(index["a"]["value"]) if sign == 1 and index["a"].kind == "IntImm" else 0


def _written_out(node: Node) -> Iterator[Hashable]:
    """All parts of an expression, outermost first: the same for two that are written alike.
    Without recursion, for an upload may be nested deeply."""
    waiting: list[Any] = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            yield one.kind
            waiting += one.fields.values()
        elif isinstance(one, tuple):
            yield len(one)
            waiting += one
        else:
            yield one


def _distance_to_zero(value: Node) -> Node:
    def byte() -> Node:
        return Node("Type", value.where, {"code": "uint", "bits": 8, "lanes": 1})

    args: Sequence[Node] = (
        value,
        Node("UIntImm", value.where, {"value": 0, "type": byte()}),
    )
    fields = {
        "name": "absd",
        "args": args,
        "call_type": "PureIntrinsic",
        "func_index": -1,
        "value_index": 0,
        "image_name": "",
        "param_name": "",
        "type": byte(),
    }
    return Node("Call", value.where, fields)
