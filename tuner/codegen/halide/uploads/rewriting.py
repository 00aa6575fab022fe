"""What of an upload is read otherwise than it is written, with the same values.

Coordinates beyond a mirrored edge are remainders of twice the extent. In vectors Halide 21 makes
64-bit products of them, which HVX lacks (``Unsupported HVX type: int64``), or divides lane by lane.
Where nothing is read farther beyond an edge than the edge is long, a sum does (:func:`fold_once`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tuner.codegen.halide.uploads.serialized import Node, tables_in

MIRRORS = re.compile(r"mirror_(?:image|interior)\b")
"""Names of the Funcs of Halide's boundary conditions."""


def pin(nodes: Iterable[Node], values: Mapping[str, int]) -> None:
    """Puts ``values`` for scalars, by name, and for ends of buffers, such as ``image.extent.0``,
    among ``nodes``: how far what depends on them goes is then known."""
    for node in nodes:
        if node.kind == "Variable" and node["param_name"] and node["name"] in values:
            kind, value = node["type"], values[node["name"]]
            node.kind = "IntImm" if kind["code"] == "int" else "UIntImm"
            node.fields = {"value": value, "type": kind}


def fold_once(func: Node) -> None:
    """Has mirrored coordinates of a Func folded once instead of divided. That is right where they
    are at most twice the extent less 2 beyond the first element, to either side."""
    if not MIRRORS.match(func["name"]):
        return
    nodes = list(tables_in(func["init_def"]))
    lets = {node["name"]: node["value"] for node in nodes if node.kind == "Let"}
    for node in nodes:
        if node.kind == "Select":
            _fold(node, lets)
    for node in reversed(nodes):
        if node.kind == "Let" and not _uses(node["body"], node["name"]):
            body = node["body"]
            node.kind, node.fields = body.kind, body.fields


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
        return Node(kind, node.where, {"a": a, "b": b})

    def number(value: int) -> Node:
        word = Node("Type", node.where, {"code": "int", "bits": 32, "lanes": 1})
        return Node("IntImm", node.where, {"value": value, "type": word})

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
