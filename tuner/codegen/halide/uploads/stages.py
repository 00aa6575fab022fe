"""The stages of a pipeline as their definitions are written: the facts a space is derived from that
are no extents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from tuner.codegen.halide.uploads.contents import (
    BINARY,
    Contents,
    Func,
    Update,
    alike,
    definitions_of,
    expressions_in,
    is_call_to_func,
    is_read,
    is_true,
    is_variable,
)
from tuner.codegen.halide.uploads.intrinsics import Type
from tuner.codegen.halide.uploads.serialized import Node, written_out
from tuner.program.bounds import Box
from tuner.space.derivation.facts import EVERY_DIMENSION, StageFacts, UpdateFacts

_EDGES = re.compile(r"(repeat_edge|constant_exterior|mirror_\w+|repeat_image)\b")
_HELPERS = re.compile(rf"lambda_\d+\b|{_EDGES.pattern}")
"""Funcs that Halide's boundary conditions are made of. They stay inline: a loop over them has no
steady state of its own, while consumers have one. An edge is a stage where callers choose extents:
many reads of it would each be written out lane by lane; and where it is read at multiples along its
rows: Halide 21 makes wrong permutations of clamped multiples such as 0, 0, 1, 3, 5
(``generate_vdelta`` in CodeGen_Hexagon.cpp leaves open what an element needs that stays where it
is)."""
_INDEX: Type = ("int", 32)
_MOST_LANE_BITS = 32
"""HVX has no vectors of more."""
_DIVISION_OPERATIONS = 4000
"""HVX has no division: by anything but a constant LLVM writes one out for each lane."""
_ARITHMETIC = frozenset(("Add", "Sub", "Mul", "Div", "Mod", "LT", "LE", "GT", "GE"))
_BRACKETED = BINARY - {"Min", "Max"}
_QUOTIENTS = frozenset(("Div", "Mod"))
_NUMBERS = frozenset(("IntImm", "UIntImm"))
_Lets = Mapping[str, Sequence[Node]]
"""What definitions name, by name."""


class Stages:
    """Those of ``contents``, all of whose expressions are looked at; ``is_open`` if the facts are
    for code that holds for other extents too."""

    def __init__(self, contents: Contents, *, is_open: bool) -> None:
        self._contents, self._types, self._funcs = contents, contents.types, contents.funcs
        self._roots = {
            name: [root for root in definitions_of(func) if not is_true(root)]
            for name, func in self._funcs.items()
        }
        self._nodes = {name: _all(roots) for name, roots in self._roots.items()}
        self._lets = {name: _lets_in(nodes) for name, nodes in self._nodes.items()}
        self._reads = {name: _reads_in(nodes) for name, nodes in self._nodes.items()}
        self._is_open = is_open

    @cached_property
    def helpers(self) -> frozenset[str]:
        """Those that always stay inline."""
        return frozenset(name for name in self._funcs if self._is_helper(name))

    def _is_helper(self, name: str) -> bool:
        func = self._funcs[name]
        wraps = name.partition("$")[0] in {f"{one}_im" for one in self._contents.inputs}
        if func.updates or name in self._contents.outputs or not (wraps or _HELPERS.match(name)):
            return False
        return not (_EDGES.match(name) and (self._is_open or name in self._skipped))

    @cached_property
    def _skipped(self) -> frozenset[str]:
        """Those that others read at multiples along their rows."""
        return frozenset(
            read["name"]
            for name, reads in self._reads.items()
            for read in reads
            if _has(read["args"][0], ("Mul",), self._lets[name])
        )

    def facts(
        self, name: str, box: Box, steps: Sequence[Sequence[int]], *, is_wrong: bool
    ) -> StageFacts:
        """Those of a stage that is needed within ``box``; ``steps`` are the extents of the
        reductions of each of its updates."""
        func, nodes, reads = self._funcs[name], self._nodes[name], self._reads[name]
        lets = self._lets[name]
        dimensions = func.dimensions
        roots = [root for one in self._through_helpers(name) for root in self._roots[one]]
        seen = _all(roots)
        called = Counter(node["name"] for node in seen if _is_read(node))
        bits = {*map(self._bits, seen), *(kind[1] for kind in func.types)}
        bits = {one for one in bits if 8 <= one <= _MOST_LANE_BITS} or {8}
        strides = {one: sum(_goes_across(read, one, lets) for read in reads) for one in dimensions}
        others = [tuple(written_out(read)) for read in reads if read["name"] != name]
        is_output = name in self._contents.outputs
        return StageFacts(
            name=name,
            dimensions=dimensions,
            extents=tuple(high - low + 1 for low, high in reversed(box)),
            bits=max(kind[1] for kind in func.types),
            narrowest_bits=min(bits),
            widest_bits=max(bits),
            reads=tuple(
                (other, called[other])
                for other in sorted(called.keys() & self._funcs.keys() - self.helpers - {name})
            ),
            clamped=self._is_clamped(name),
            operations=sum(map(self._operations, seen)) + _brackets(roots),
            updates=tuple(map(self._update, [func] * len(steps), func.updates, steps)),
            values=len(func.types),
            divides=(EVERY_DIMENSION,) if is_wrong else self._divides(seen, dimensions),
            strided=tuple((one, count) for one, count in strides.items() if count),
            picks=bool(dimensions) and _only_picks(nodes, reads, dimensions[0]),
            skipped=name in self._skipped,
            gathers=any(_has(read["args"][0], _QUOTIENTS, lets) for read in reads),
            is_output=is_output,
            is_edge=not is_output and bool(_EDGES.match(name)),
            apart=self._is_read_apart(name),
            looks_up=any(
                any(map(_is_read, _through(node["args"], self._lets[one])))
                for one in self._through_helpers(name)
                for node in filter(_is_read, self._nodes[one])
            ),
            inputs=tuple(sorted(called.keys() & self._contents.inputs.keys())),
            chooses=tuple(one for one in dimensions if _chooses(nodes, one)),
            ended=bool(dimensions) and self._is_clamped(name, dimensions[0]),
            repeats=len({*others}) < len(others) or any(node.kind == "Let" for node in nodes),
        )

    def _through_helpers(self, name: str) -> Collection[str]:
        """The stage and the helpers that it reads, however deep."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                waiting += [n for r in self._reads[one] if (n := r["name"]) in self.helpers]
        return found

    def _bits(self, node: Node) -> int:
        """Of what is computed; indices are of 32, and nothing is computed of them."""
        kind = self._types[node]
        return kind[1] if kind != _INDEX or node.kind == "Cast" else 0

    def _operations(self, node: Node) -> int:
        """How much there is to compute: signs that it is written with, brackets and types among
        them, where what it is made of is counted by itself."""
        is_typed = self._types[node] != _INDEX
        if node.kind in _NUMBERS:
            return int(is_typed) + int(node["value"] < 0)
        if node.kind == "Variable":
            return int(is_typed and bool(node["param_name"]))
        if node.kind in _BRACKETED:
            divides = node.kind in _QUOTIENTS and not _is_cheap(node["b"])
            signs = int(node.kind in _ARITHMETIC) + divides * _DIVISION_OPERATIONS
            return signs + _brackets((node["a"], node["b"]))
        return 1 + (node.kind == "Call" and is_typed)

    def _divides(self, seen: Iterable[Node], dimensions: Sequence[str]) -> tuple[str, ...]:
        """The dimensions whose vectors would be divided as HVX cannot; all, if values are. Halide
        multiplies what has 32 bits with a reciprocal of 64, of which HVX has no vectors."""
        found: set[str] = set()
        for node in seen:
            if node.kind in _QUOTIENTS and self._types[node][1] == 32:
                divisor = node["b"]["value"] if node["b"].kind in _NUMBERS else 0
                if divisor > 0 and divisor & (divisor - 1):
                    within = _all([node["a"]])
                    own = {one for one in dimensions if _goes_along(within, one)}
                    is_index = len(own) == len({*_names_in(within)})
                    found |= own if is_index else {EVERY_DIMENSION}
        return tuple(sorted(found))

    def _is_clamped(self, name: str, along: str = "") -> bool:
        """Whether widening the stage's region, in any dimension or ``along`` one, widens no input's
        nor another output's, whose buffers are as large as callers make them: every way to one is
        clamped."""
        visited, waiting = {name}, [name]
        while waiting:
            one = waiting.pop()
            # Reductions go over the same range, however much is computed.
            fixed = {rvar for update in self._funcs[one].updates for rvar, *_ in update.rvars}
            lets = self._lets[one]
            for read in filter(_is_read, self._nodes[one]):
                called, indices = read["name"], read["args"]
                if along and one == name:
                    moved = (_goes_along(_through([i], lets), along) for i in indices)
                    indices = [i for i, is_moved in zip(indices, moved, strict=True) if is_moved]
                if called in visited or not any(_follows_loops(i, fixed, lets) for i in indices):
                    continue
                if not is_call_to_func(read) or called in self._contents.outputs:
                    return False
                visited.add(called)
                waiting.append(called)
        return True

    def _is_read_apart(self, name: str) -> bool:
        """Whether others read it along its rows at other places than their own."""
        return any(
            not is_variable(read["args"][0], next(iter(self._funcs[other].dimensions), ""))
            for other, reads in self._reads.items()
            for read in reads
            if read["name"] == name != other
        )

    def _update(self, func: Func, update: Update, steps: Sequence[int]) -> UpdateFacts:
        nodes = _all(update.values)
        reads = _reads_in(nodes)
        own = [one for one in reads if one["name"] == func.name]
        others = [one for one in reads if one["name"] != func.name]
        rvars = [name for name, *_ in update.rvars]
        across = (one for one in rvars if _is_along_rows(others, one))
        is_dot = any(map(self._is_product_of_bytes, nodes))
        signs = {self._types[one] for one in nodes if one.kind != "Cast"}
        combines, term = "", None
        if len(own) == len(update.values) == 1:
            combines, term = _combination(update.values[0], own[0])
        return UpdateFacts(
            # A dimension along which the stage reads its own neighbours has an order to keep.
            pure=tuple(
                one
                for number, one in enumerate(func.dimensions)
                if all(is_variable(at[number], one) for at in (update.places, *_places(own)))
            ),
            rvars=tuple(zip(rvars, steps, strict=True)),
            scans=any(not alike(at, update.places) for at in _places(own)),
            combines=combines,
            # Halide 21 mistakes the signs of a scalar and a vector that differ in it (vrmpy).
            dot=is_dot and not signs >= {("int", 8), ("uint", 8)},
            backwards=any(
                node.kind == "Sub" and any(is_variable(node["b"], one) for one in rvars)
                for node in _all(update.places)
            ),
            across=next(across, ""),
            quads=is_dot or (combines == "sum" and self._is_byte(term)),
        )

    def _is_product_of_bytes(self, node: Node) -> bool:
        """Whether it is a product of two 8-bit values, each widened."""
        if node.kind == "Call":
            return node["name"] == "widening_mul" and self._types[node["args"][0]][1] == 8
        return node.kind == "Mul" and all(map(self._is_widened_byte, (node["a"], node["b"])))

    def _is_widened_byte(self, node: Node) -> bool:
        if node.kind != "Cast" or node["value"].kind in _NUMBERS:
            return False
        return self._types[node["value"]][1] == 8 and self._types[node][1] in (16, 32)

    def _is_byte(self, term: Node | None) -> bool:
        """Whether a term is one unsigned byte.

        Signed ones are not meant: Halide 21 lacks the ``vrmpy`` that adds them
        (``add_4mpy.vb.b`` not found).
        """
        if term is None or term.kind != "Cast" or term["value"].kind != "Call":
            return False
        return (self._types[term][1], self._types[term["value"]]) == (32, ("uint", 8))


def _all(roots: Iterable[Node]) -> list[Node]:
    return [node for root in roots for node in expressions_in(root)]


def _lets_in(nodes: Iterable[Node]) -> _Lets:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if node.kind == "Let":
            found.setdefault(node["name"], []).append(node["value"])
    return found


def _through(roots: Iterable[Node], lets: _Lets) -> Iterator[Node]:
    """All expressions in ``roots``, and in what they name, each name once."""
    waiting, named = [*roots], set[str]()
    while waiting:
        for node in expressions_in(waiting.pop()):
            yield node
            if node.kind == "Variable" and node["name"] in lets and node["name"] not in named:
                named.add(node["name"])
                waiting += lets[node["name"]]


def _brackets(nodes: Iterable[Node]) -> int:
    return sum(node.kind in _BRACKETED for node in nodes)


def _is_read(node: Node) -> bool:
    """Whether it is an element of a Func or an input; those of tables stay where they are."""
    return node.kind == "Call" and is_read(node) and not node["image_name"]


def _reads_in(nodes: Iterable[Node]) -> list[Node]:
    """The reads of Funcs with dimensions."""
    return [node for node in nodes if is_call_to_func(node) and node["args"]]


def _places(reads: Iterable[Node]) -> Iterator[Sequence[Node]]:
    return (read["args"] for read in reads)


def _has(root: Node, kinds: Collection[str], lets: _Lets) -> bool:
    return any(node.kind in kinds for node in _through([root], lets))


def _goes_along(nodes: Iterable[Node], variable: str) -> bool:
    return any(is_variable(node, variable) for node in nodes)


def _names_in(nodes: Iterable[Node]) -> Iterator[str]:
    return (node["name"] for node in nodes if node.kind in ("Variable", "Call"))


def _goes_across(read: Node, variable: str, lets: _Lets) -> bool:
    """Whether a read goes along ``variable`` from one row in memory to another."""
    inner, *outer = read["args"]
    goes_inside = _goes_along(_through([inner], lets), variable)
    return _goes_along(_through(outer, lets), variable) and not goes_inside


def _only_picks(nodes: Iterable[Node], reads: Iterable[Node], variable: str) -> bool:
    """Whether ``variable`` is nothing but the first index of what is read."""
    picked = sum(is_variable(read["args"][0], variable) for read in reads)
    return picked == sum(is_variable(node, variable) for node in nodes)


def _chooses(nodes: Iterable[Node], variable: str) -> bool:
    """Whether the number of ``variable`` decides which of several values there is."""
    for node in nodes:
        if node.kind == "EQ" and node["b"].kind == "IntImm" and is_variable(node["a"], variable):
            return True
        if node.kind == "Call" and node["name"] == "mux" and is_variable(node["args"][0], variable):
            return True
    return False


def _is_cheap(divisor: Node) -> bool:
    """Whether vectors are divided by it in a few operations: a number, or powers of two."""
    if divisor.kind in _NUMBERS:
        return True
    parts = list(expressions_in(divisor))
    numbers = [node["value"] for node in parts if node.kind in _NUMBERS]
    plain = len(numbers) == sum(node.kind not in _ARITHMETIC for node in parts)
    return plain and not any(number & (number - 1) for number in numbers)


def _follows_loops(index: Node, fixed: Collection[str], lets: _Lets) -> bool:
    """Whether an index moves beyond every bound as its loops do, those named in ``fixed`` aside.

    Not so if it is clamped from both sides, or comes out of a table of values, whose type bounds
    it.
    """
    nodes = list(_through([index], lets))
    if any(map(_is_read, nodes)) or {"Max", "Min"} <= {node.kind for node in nodes}:
        return False
    return any(node.kind == "Variable" and node["name"] not in fixed for node in nodes)


def _is_along_rows(reads: Iterable[Node], variable: str) -> bool:
    """Whether ``variable`` moves all reads that it moves along their rows, from each element to the
    next."""
    moved = [at for at in _places(reads) if _goes_along(_all(at), variable)]
    return bool(moved) and all(
        _is_beside(inner, variable) and not _goes_along(_all(outer), variable)
        for inner, *outer in moved
    )


def _is_beside(index: Node, variable: str) -> bool:
    if index.kind in ("Add", "Sub") and index["b"].kind == "IntImm":
        index = index["a"]
    return is_variable(index, variable)


def _combination(value: Node, own: Node) -> tuple[str, Node | None]:
    """How an update joins a term to its ``own`` old value, and the term."""
    while value.kind == "Let":
        value = value["body"]
    how = {"Max": "max", "Min": "min", "Add": "sum"}.get(value.kind, "")
    if how and own in (value["a"], value["b"]):
        return how, value["b"] if value["a"] is own else value["a"]
    return "", None
