"""The stages of a pipeline as its program says them: the facts a space is derived from that are no
extents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TypeGuard

from tuner.codegen.halide.uploads.contents import Contents
from tuner.codegen.halide.uploads.intrinsics import BOOL as CONDITION
from tuner.codegen.halide.uploads.program import called, spelled_program
from tuner.program.bounds import Box
from tuner.program.expressions import Binary, Cast, Constant, Expr, Load, Variable, ordered
from tuner.program.loops import Stage
from tuner.program.types import I8, INDEX, U8
from tuner.space.derivation.facts import EVERY_DIMENSION, StageFacts, UpdateFacts

_EDGES = re.compile(r"(repeat_edge|constant_exterior|mirror_\w+|repeat_image)\b")
_HELPERS = re.compile(rf"lambda_\d+\b|{_EDGES.pattern}")
"""Funcs that Halide's boundary conditions are made of. They stay inline: a loop over them has no
steady state of its own, while consumers have one. An edge is a stage where callers choose extents:
many reads of it would each be written out lane by lane; and where it is read at multiples along its
rows: Halide 21 makes wrong permutations of clamped multiples such as 0, 0, 1, 3, 5
(``generate_vdelta`` in CodeGen_Hexagon.cpp leaves open what an element needs that stays where it
is)."""
_MOST_LANE_BITS = 32
"""HVX has no vectors of more."""
_DIVISION_OPERATIONS = 4000
"""HVX has no division: by anything but a constant LLVM writes one out for each lane."""
_ARITHMETIC = ("+", "-", "*", "//", "%", "<", "<=", ">", ">=")
_QUOTIENTS = ("//", "%")
_PLAIN = ("+", "-", "*", "//")
_WAYS = {"max": "max", "min": "min", "+": "sum"}


class Stages:
    """Those of ``contents``, all of whose expressions are looked at; ``is_open`` if the facts are
    for code that holds for other extents too."""

    def __init__(self, contents: Contents, *, is_open: bool) -> None:
        self._contents, self._funcs, self._is_open = contents, contents.funcs, is_open
        program, self._spelled = spelled_program(contents)
        self._called = called(contents, program)
        """What Halide calls inputs and arrays."""
        self._stages = {self._called[stage.name]: stage for stage in program.stages}
        self._conditions = {
            array
            for name, stage in self._stages.items()
            for array, kind in zip(stage.arrays, self._funcs[name].types, strict=True)
            if kind == CONDITION
        }
        self._arrays = {a: name for name, stage in self._stages.items() for a in stage.arrays}
        self._called |= self._arrays
        self._roots = {name: self._roots_of(stage) for name, stage in self._stages.items()}
        written = {name: self._written(roots) for name, roots in self._roots.items()}
        self._nodes = {name: nodes for name, (nodes, _) in written.items()}
        self._names = {name: count for name, (_, count) in written.items()}
        self._reads = {name: self._reads_in(nodes) for name, nodes in self._nodes.items()}

    @cached_property
    def helpers(self) -> frozenset[str]:
        """Those that always stay inline."""
        return frozenset(name for name in self._funcs if self._is_helper(name))

    def _is_helper(self, name: str) -> bool:
        func = self._funcs[name]
        wraps = self._contents.wrapped(name)
        if func.updates or name in self._contents.outputs or not (wraps or _HELPERS.match(name)):
            return False
        return not (_EDGES.match(name) and (self._is_open or name in self._skipped))

    @cached_property
    def _skipped(self) -> frozenset[str]:
        """Those that others read at multiples along their rows."""
        return frozenset(
            self._arrays[read.source]
            for reads in self._reads.values()
            for read in reads
            if _has(read.indices[-1], ("*",))
        )

    def facts(
        self, name: str, box: Box, steps: Sequence[Sequence[int]], *, is_wrong: bool
    ) -> StageFacts:
        """Those of a stage that is needed within ``box``; ``steps`` are the extents of the
        reductions of each of its updates."""
        func, nodes, reads = self._funcs[name], self._nodes[name], self._reads[name]
        axes = dict(zip(func.dimensions, reversed(self._stages[name].places), strict=True))
        inner = next(iter(axes.values()), None)
        whole = self._through_helpers(name)
        seen = [node for one in whole for node in self._nodes[one]]
        called = Counter(self._called[node.source] for node in seen if self._is_read(node))
        bits = {*map(self._bits, seen), *(kind[1] for kind in func.types)}
        bits = {one for one in bits if 8 <= one <= _MOST_LANE_BITS} or {8}
        strides = {one: sum(_goes_across(at, axis) for at in reads) for one, axis in axes.items()}
        others = [read for read in reads if self._arrays[read.source] != name]
        is_output = name in self._contents.outputs
        return StageFacts(
            name=name,
            dimensions=func.dimensions,
            extents=tuple(high - low + 1 for low, high in reversed(box)),
            bits=max(kind[1] for kind in func.types),
            narrowest_bits=min(bits),
            widest_bits=max(bits),
            reads=tuple(
                (other, called[other])
                for other in sorted(called.keys() & self._funcs.keys() - self.helpers - {name})
            ),
            clamped=self._is_clamped(name),
            operations=sum(map(self._operations, seen))
            + sum(self._names[one] + self._brackets(self._roots[one]) for one in whole),
            updates=tuple(self._update(name, number, one) for number, one in enumerate(steps)),
            values=len(func.types),
            divides=(EVERY_DIMENSION,) if is_wrong else self._divides(seen, axes),
            strided=tuple((one, count) for one, count in strides.items() if count),
            picks=inner is not None
            and nodes.count(inner) == sum(read.indices[-1] is inner for read in reads),
            skipped=name in self._skipped,
            gathers=any(_has(read.indices[-1], _QUOTIENTS) for read in reads),
            is_output=is_output,
            is_edge=not is_output and bool(_EDGES.match(name)),
            apart=self._is_read_apart(name),
            looks_up=any(self._is_looked_up(node) for node in seen),
            inputs=tuple(sorted(called.keys() & self._contents.inputs.keys())),
            chooses=tuple(one for one, axis in axes.items() if self._chooses(name, axis)),
            ended=inner is not None and self._is_clamped(name, inner),
            repeats=self._names[name] > 0 or len({*others}) < len(others),
        )

    def _roots_of(self, stage: Stage) -> list[Expr]:
        """All that a stage computes; what is a condition in Halide, as one."""
        roots = [one for update in stage.updates for one in update.places]
        roots += [one.condition for one in stage.updates if one.condition is not None]
        for values in (stage.values, *(one.values for one in stage.updates)):
            for array, value in zip(stage.arrays, values, strict=True):
                roots.append(value.parts[0] if array in self._conditions else value)
        return roots

    def _parts(self, node: Expr) -> Sequence[Expr]:
        return self._spelled[node][1] if node in self._spelled else node.parts

    def _written(self, roots: Iterable[Expr]) -> tuple[list[Expr], int]:
        """The nodes of each of ``roots`` as Halide has them, where what is used again has a name
        (``should_extract`` in CSE.cpp) and is there once; and how many have one."""
        found, names = list[Expr](), 0
        for root in roots:
            seen, named, waiting = set[Expr](), set[Expr](), [root]
            while waiting:
                node = waiting.pop()
                if node in seen:
                    named.add(node)
                    continue
                found.append(node)
                if self._may_be_named(node):
                    seen.add(node)
                waiting += self._parts(node)
            names += len(named)
        return found, names

    def _may_be_named(self, node: Expr) -> bool:
        """Whether it is more than a number, a variable, or one step from something."""
        if node in self._spelled:
            return True
        while isinstance(node, Cast):
            node = node.operand
        if isinstance(node, Binary) and node.operator in _PLAIN:
            return not any(isinstance(one, Constant) for one in node.parts)
        return not isinstance(node, Constant | Variable)

    def _through_helpers(self, name: str) -> Collection[str]:
        """The stage and the helpers that it reads, however deep."""
        found: dict[str, None] = {}
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found[one] = None
                read = (self._arrays[read.source] for read in self._reads[one])
                waiting += (other for other in read if other in self.helpers)
        return found

    def _is_read(self, node: Expr) -> TypeGuard[Load]:
        """Whether it is an element of a Func or an input; those of tables stay where they are."""
        return isinstance(node, Load) and node.source in self._called

    def _reads_in(self, nodes: Iterable[Expr]) -> list[Load]:
        """The reads of Funcs with dimensions."""
        return [
            node
            for node in nodes
            if isinstance(node, Load) and node.source in self._arrays and node.indices
        ]

    def _is_looked_up(self, node: Expr) -> bool:
        return self._is_read(node) and any(map(self._is_read, ordered(node.parts)))

    def _bits(self, node: Expr) -> int:
        """Of what is computed; indices are of 32, and nothing is computed of them."""
        if isinstance(node, Load) and node.source in self._conditions:
            return 0
        is_cast = isinstance(node, Cast) and node not in self._spelled
        return node.type.bits if node.type != INDEX or is_cast else 0

    def _operations(self, node: Expr) -> int:
        """How much there is to compute: signs that it is written with, brackets and types among
        them, where what it is made of is counted by itself."""
        is_typed = node.type != INDEX
        if isinstance(node, Constant):
            return int(is_typed) + int(node.value < 0)
        if isinstance(node, Variable):
            return int(is_typed)
        if isinstance(node, Binary) and self._has_brackets(node):
            divides = node.operator in _QUOTIENTS and not _is_cheap(node.right)
            signs = int(node.operator in _ARITHMETIC) + divides * _DIVISION_OPERATIONS
            return signs + self._brackets(node.parts)
        if isinstance(node, Binary) and node not in self._spelled:
            return 1 + (node.operator == "min" and not is_typed)  # an end that is tested for
        return 1 + ((isinstance(node, Load) or node in self._spelled) and is_typed)

    def _has_brackets(self, node: Expr) -> bool:
        is_sign = isinstance(node, Binary) and node.operator not in ("min", "max")
        return is_sign and node not in self._spelled

    def _brackets(self, nodes: Iterable[Expr]) -> int:
        return sum(map(self._has_brackets, nodes))

    def _divides(self, seen: Iterable[Expr], axes: Mapping[str, Variable]) -> tuple[str, ...]:
        """The dimensions whose vectors would be divided as HVX cannot; all, if values are. Halide
        multiplies what has 32 bits with a reciprocal of 64, of which HVX has no vectors."""
        found: set[str] = set()
        for node in seen:
            if isinstance(node, Binary) and node.operator in _QUOTIENTS and node.type.bits == 32:
                divisor = node.right.value if isinstance(node.right, Constant) else 0
                if divisor > 0 and divisor & (divisor - 1):
                    within = {
                        one for one in ordered([node.left]) if isinstance(one, Variable | Load)
                    }
                    is_index = within <= {*axes.values()}
                    own = (name for name, axis in axes.items() if axis in within)
                    found |= {*own} if is_index else {EVERY_DIMENSION}
        return tuple(sorted(found))

    def _chooses(self, name: str, axis: Variable) -> bool:
        """Whether the number of ``axis`` decides which of several values there is."""
        return any(
            isinstance(node, Binary)
            and node.operator == "=="
            and node.left is axis
            and isinstance(node.right, Constant)
            for node in ordered(self._roots[name])
        )

    def _is_clamped(self, name: str, along: Variable | None = None) -> bool:
        """Whether widening the stage's region, in any dimension or ``along`` one, widens no input's
        nor another output's, whose buffers are as large as callers make them: every way to one is
        clamped."""
        visited, waiting = {name}, [name]
        while waiting:
            one = waiting.pop()
            loops = (loop for update in self._stages[one].updates for loop in update.loops)
            # Reductions go over the same range, however much is computed.
            fixed = {loop.index for loop in loops if loop.bounds}
            for read in filter(self._is_read, self._nodes[one]):
                called, indices = self._called[read.source], read.indices
                if along is not None and one == name:
                    indices = tuple(index for index in indices if along in ordered([index]))
                if called in visited or not any(self._moves(index, fixed) for index in indices):
                    continue
                if read.source not in self._arrays or called in self._contents.outputs:
                    return False
                visited.add(called)
                waiting.append(called)
        return True

    def _moves(self, index: Expr, fixed: Collection[Expr]) -> bool:
        """Whether an index moves beyond every bound as its loops do, those that are ``fixed``
        aside.

        Not so if it is clamped from both sides, or comes out of a table of values, whose type
        bounds it.
        """
        nodes = list(ordered([index], self._parts))
        by = {node.operator for node in nodes if isinstance(node, Binary)}
        if any(map(self._is_read, nodes)) or {"max", "min"} <= by:
            return False
        return any(isinstance(node, Variable) and node not in fixed for node in nodes)

    def _is_read_apart(self, name: str) -> bool:
        """Whether others read it along its rows at other places than their own."""
        return any(
            read.indices[-1] is not next(reversed(self._stages[other].places), None)
            for other, reads in self._reads.items()
            for read in reads
            if self._arrays[read.source] == name != other
        )

    def _update(self, name: str, number: int, steps: Sequence[int]) -> UpdateFacts:
        func, stage = self._funcs[name], self._stages[name]
        update, rvars = stage.updates[number], [one for one, *_ in func.updates[number].rvars]
        reduced = [loop.index for loop in reversed(update.loops) if loop.bounds]
        nodes, _ = self._written(update.values)
        reads = self._reads_in(nodes)
        own = [one.indices for one in reads if stage.is_own(one)]
        others = [one for one in reads if not stage.is_own(one)]
        across = (one for one, at in zip(rvars, reduced, strict=True) if _is_along_rows(others, at))
        is_dot = any(map(_is_product_of_bytes, nodes))
        signs = {one.type for one in nodes if not isinstance(one, Cast)}
        combines, term = "", None
        if len(own) == len(update.values) == 1:
            combines, term = self._combination(stage, update.values[0])
        along = (func.dimensions, *(at[::-1] for at in (stage.places, update.places, *own)))
        return UpdateFacts(
            # A dimension along which the stage reads its own neighbours has an order to keep.
            pure=tuple(
                one
                for one, axis, *at in zip(*along, strict=True)
                if all(index is axis for index in at)
            ),
            rvars=tuple(zip(rvars, steps, strict=True)),
            scans=any(at != update.places for at in own),
            combines=combines,
            # Halide 21 mistakes the signs of a scalar and a vector that differ in it (vrmpy).
            dot=is_dot and not signs >= {I8, U8},
            backwards=any(
                isinstance(node, Binary) and node.operator == "-" and node.right in reduced
                for node in ordered(update.places)
            ),
            across=next(across, ""),
            quads=is_dot or (combines == "sum" and self._is_byte(term)),
        )

    def _combination(self, stage: Stage, value: Expr) -> tuple[str, Expr | None]:
        """How an update joins a term to its stage's old value, and the term."""
        if isinstance(value, Binary) and value.operator in _WAYS and value not in self._spelled:
            for own, term in (value.parts, value.parts[::-1]):
                if stage.is_own(own) and not any(map(stage.is_own, ordered([term]))):
                    return _WAYS[value.operator], term
        return "", None

    def _is_byte(self, term: Expr | None) -> bool:
        """Whether a term is one unsigned byte.

        Signed ones are not meant: Halide 21 lacks the ``vrmpy`` that adds them
        (``add_4mpy.vb.b`` not found).
        """
        if not isinstance(term, Cast) or not (
            isinstance(term.operand, Load) or term.operand in self._spelled
        ):
            return False
        return (term.type.bits, term.operand.type) == (32, U8)


def _has(root: Expr, operators: Collection[str]) -> bool:
    return any(isinstance(one, Binary) and one.operator in operators for one in ordered([root]))


def _goes_across(read: Load, axis: Variable) -> bool:
    """Whether a read goes along ``axis`` from one row in memory to another."""
    *outer, inner = read.indices
    return axis in ordered(outer) and axis not in ordered([inner])


def _is_cheap(divisor: Expr) -> bool:
    """Whether vectors are divided by it in a few operations: a number, or powers of two."""
    leaves = [one for one in ordered([divisor]) if not one.parts]
    numbers = [one.value for one in leaves if isinstance(one, Constant)]
    return isinstance(divisor, Constant) or (
        len(numbers) == len(leaves) and not any(number & (number - 1) for number in numbers)
    )


def _is_product_of_bytes(node: Expr) -> bool:
    """Whether it is a product of two 8-bit values, each widened."""
    return (
        isinstance(node, Binary) and node.operator == "*" and all(map(_is_widened_byte, node.parts))
    )


def _is_widened_byte(node: Expr) -> bool:
    if not isinstance(node, Cast) or isinstance(node.operand, Constant):
        return False
    return node.operand.type.bits == 8 and node.type.bits in (16, 32)


def _is_along_rows(reads: Iterable[Load], variable: Variable) -> bool:
    """Whether ``variable`` moves all reads that it moves along their rows, from each element to the
    next."""
    moved = [read.indices for read in reads if variable in ordered(read.indices)]
    return bool(moved) and all(
        _is_beside(inner, variable) and variable not in ordered(outer) for *outer, inner in moved
    )


def _is_beside(index: Expr, variable: Variable) -> bool:
    is_moved = isinstance(index, Binary) and index.operator in ("+", "-")
    if is_moved and isinstance(index.parts[1], Constant):
        index = index.parts[0]
    return index is variable
