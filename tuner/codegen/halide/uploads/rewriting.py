"""Pipelines with the same values, written as Halide 21 compiles them.

Bytes side by side that are widened and added (``u16(f(2 * x)) + u16(f(2 * x + 1))``, the mean of
2x2 pixels) it makes a horizontal sum of, and then a call that its HVX runtime lacks
(``Function 'halide.hexagon.add_2mpy.vub.ub' not found``). It does not see through the distance of
one of them to zero, which costs an instruction.

Coordinates beyond a mirrored edge are remainders of twice the extent. In vectors Halide 21 makes
64-bit products of them, which HVX lacks (``Unsupported HVX type: int64``), or divides lane by lane.
Where nothing is read farther beyond an edge than the edge is long, a sum does (:func:`mirrored`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise

from tuner.codegen.halide.uploads.serialized import Node, fresh, tables_in, written, written_out
from tuner.codegen.halide.uploads.unscheduling import unscheduled

MIRRORS = re.compile(r"mirror_(?:image|interior)\b")
"""Names of the Funcs of Halide's boundary conditions."""
_BYTE = ("uint", 8)
_SUMS = ("Add", "Sub")


def rewritten(data: bytes) -> bytes:
    """A pipeline without a schedule that has the same values. ``data`` must have been checked."""
    root, order = unscheduled(data)
    inner = {id(node[side]) for node in order if node.kind in _SUMS for side in ("a", "b")}
    for node in order:
        if node.kind in _SUMS and id(node) not in inner:
            for term in {id(term): term for term in _beside(node)}.values():
                term.fields["value"] = _distance_to_zero(term["value"])
    return written(root)


def pinned(data: bytes, values: Mapping[str, int]) -> bytes:
    """``data`` with ``values`` for scalars, by name, and for ends of buffers, such as
    ``image.extent.0``: Halide then tells in numbers how far what depends on them goes."""
    if not values:
        return data
    root, order = unscheduled(data)
    for node in order:
        if node.kind == "Variable" and node["param_name"] and node["name"] in values:
            kind, value = node["type"], values[node["name"]]
            node.kind = "IntImm" if kind["code"] == "int" else "UIntImm"
            node.fields = {"value": value, "type": kind}
    return written(root)


def mirrored(data: bytes) -> bytes:
    """``data`` with mirrored coordinates folded once instead of divided. That is right where they
    are at most twice the extent less 2 beyond the first element, to either side."""
    root, order = unscheduled(data)
    for func in order:
        if func.kind == "Func" and MIRRORS.match(func["name"]):
            nodes = list(tables_in(func["init_def"]))
            lets = {node["name"]: node["value"] for node in nodes if node.kind == "Let"}
            for node in nodes:
                if node.kind == "Select":
                    _fold(node, lets)
            for node in reversed(nodes):
                if node.kind == "Let" and not _uses(node["body"], node["name"]):
                    body = node["body"]
                    node.kind, node.fields = body.kind, body.fields
    return written(root)


def _uses(part: Node, name: str) -> bool:
    return any(node.kind == "Variable" and node["name"] == name for node in tables_in(part))


_COORDINATE = (
    "Select(Or(LT({v},{m}),GE({v},Add({m},{e}))),{mirror},"
    "likely(Max(Min(likely({v}),Sub(Add({m},{e}),1)),{m})))"
)
_REMAINDER = "Mod(Sub({v},{m}),Mul(2,{e}))"
_MIRROR = {
    0: f"Max(Min(Add(Select(GE({_REMAINDER},{{e}}),Sub(Sub(Mul(2,{{e}}),1),{_REMAINDER}),"
    f"{_REMAINDER}),{{m}}),Sub(Add({{m}},{{e}}),1)),{{m}})",
    1: "Add(Sub(Sub({e},1),Cast(abs(Sub(Mod(Sub({v},{m}),Mul(2,Sub({e},1))),Sub({e},1))))),{m})",
}
"""Coordinate ``v`` beyond an edge of ``e`` elements from ``m`` on, as Halide 21 writes it where the
element at the edge is repeated, and where it is not."""


def _fold(node: Node, lets: Mapping[str, Node]) -> None:
    """Has ``node``, if it is such a coordinate, fold once. The smaller of two distances has bounds
    that Halide finds: that of a remainder are the whole extent."""
    text = _text(node, lets)
    names = {
        n["name"]: n for n in tables_in(node) if n.kind == "Variable" and n["name"] not in lets
    }
    if len(names) != 3:
        return
    v, e, m = sorted(names, key=lambda name: (".min." in name, ".extent." in name))

    def made(kind: str, a: Node, b: Node) -> Node:
        return fresh(kind, node.where, a=a, b=b)

    def number(value: int) -> Node:
        word = fresh("Type", node.where, bits=32)
        return fresh("IntImm", node.where, value=value, type=word)

    for left_out, mirror in _MIRROR.items():
        if text == _COORDINATE.replace("{mirror}", mirror).format(v=v, m=m, e=e):
            at = made("Sub", names[v], names[m])
            last = made("Sub", names[e], number(1))
            turned = made("Sub", number(left_out - 1), at)
            once = made("Max", at, turned)
            far = made("Sub", made("Mul", number(2), last), number(left_out - 1))
            back = made("Min", once, made("Sub", far, once))
            within = made("Max", made("Min", back, last), number(0))
            node.fields["true_value"] = made("Add", within, names[m])


def _text(node: Node, lets: Mapping[str, Node]) -> str:
    """An expression of integers, with what ``lets`` name written in."""
    if node.kind == "Variable":
        name = node["name"]
        return _text(lets[name], lets) if name in lets else str(name)
    if node.kind in ("IntImm", "UIntImm"):
        return str(node["value"])
    parts = node["args"] if node.kind == "Call" else node.fields.values()
    inner = (_text(one, lets) for one in parts if isinstance(one, Node) and one.kind != "Type")
    return f"{node['name'] if node.kind == 'Call' else node.kind}({','.join(inner)})"


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
    if "Mul" not in written_out(inner):
        return None
    return (call["name"], *(tuple(written_out(index)) for index in outer)), _offset(inner)


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


def _distance_to_zero(value: Node) -> Node:
    where = value.where
    zero = fresh("UIntImm", where, value=0, type=value["type"])
    return fresh(
        "Call",
        where,
        name="absd",
        args=(value, zero),
        call_type="PureIntrinsic",
        type=value["type"],
    )
