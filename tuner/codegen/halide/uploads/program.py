"""A serialized pipeline as a program (:mod:`tuner.program`), structure by structure.

Arguments are in the order of Halide's calls: buffers by name, then scalars. Stages keep their
names, as far as they are names; a Func of conditions becomes one of 0 and 1. An
axis of an input whose extent the pipeline asks for begins at 0 and has a size, ``NAME_extent_N``
(N counted as Halide does, from the innermost); others reach as far as they are read. Those of
outputs are sizes as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    Table,
    Update,
    by_name,
    checked,
    is_call_to_func,
    is_read,
    is_true,
    is_variable,
    parts_of,
    require,
    type_in,
    unnumbered,
)
from tuner.codegen.halide.uploads.intrinsics import INTRINSICS, converted
from tuner.codegen.halide.uploads.intrinsics import Type as HalideType
from tuner.codegen.halide.uploads.rewriting import MIRRORS, folded_once
from tuner.codegen.halide.uploads.serialized import Node
from tuner.program import loops
from tuner.program.expressions import (
    Binary,
    BinaryOperator,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    rewritten,
)
from tuner.program.types import BOOL, INDEX, U8, Type

_BINARY: Mapping[str, BinaryOperator] = {
    "Add": "+",
    "Sub": "-",
    "Mul": "*",
    "Div": "//",
    "Mod": "%",
    "Min": "min",
    "Max": "max",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "&",
    "Or": "|",
}
_OF_A_BUFFER = re.compile(r"(.+)\.(min|extent)\.(\d{1,2})")


def program_of(data: bytes, name: str = "pipeline") -> loops.Program:
    """The program that the serialized pipeline ``data`` is.

    Raises what :func:`checked` does, and ``ProgramError`` if it does not fit the form.
    """
    return read_program(checked(data), name)


def described(data: bytes) -> dict[str, Any]:
    """The JSON form of the ``PipelineDescription`` of ``data``. Raises what ``checked`` does."""
    contents = checked(data)
    read_program(contents)
    inputs = [(name, contents.inputs[name]) for name in contents.arguments]
    return {
        "stages": [
            {
                "name": name,
                "dimensions": func.dimensions,
                "types": [f"{code}{bits}" for code, bits in func.types],
                "updates": len(func.updates),
            }
            for name, func in contents.funcs.items()
            if not contents.wrapped(name)
        ],
        "inputs": [
            {
                "name": name,
                "type": "{}{}".format(*kind),
                "dimensions": max(rank, 0),
                "is_buffer": rank >= 0,
            }
            for name, (kind, rank) in inputs
        ],
        "outputs": contents.outputs,
    }


Place = tuple[Sequence[int], Sequence[int]]
"""Where a buffer begins, and its extents, innermost first."""


def read_program(
    contents: Contents, name: str = "pipeline", known: Mapping[str, Place] | None = None
) -> loops.Program:
    """The same of a pipeline that was checked.

    Where the places of all inputs and outputs are ``known``, they are numbers in it rather than
    sizes, and no axis of an input is declared.
    """
    return _Reading(contents, known or {}).program(name)


Spelled = Mapping[Expr, tuple[str, Sequence[Expr]]]
"""The call of Halide's arithmetic that an expression of the form stands for, and of what."""


def spelled_program(contents: Contents) -> tuple[loops.Program, Spelled]:
    """The same program, and how its author spelled what is an expression of several nodes in it."""
    reading = _Reading(contents, {})
    return reading.program("pipeline"), reading.spelled


def called(contents: Contents, program: loops.Program) -> dict[str, str]:
    """What Halide calls the arguments and stages of the ``program`` that ``contents`` are."""
    own = (one.name for one in (*program.arguments, *program.stages))
    names = (*contents.arguments, *(func.name for func in by_name(contents)))
    return dict(zip(own, names, strict=True))


Range = Sequence[int]
"""The least and the greatest value, or nothing: all of a type."""


def declared(
    program: loops.Program, inputs: Iterable[Range], scalars: Iterable[Range]
) -> loops.Program:
    """``program`` with these ranges of its inputs and scalars, each in their order."""
    ranges = dict(zip((one.name for one in program.inputs), inputs, strict=True))
    ranges |= zip((one.name for one in program.scalars), scalars, strict=True)
    arguments = tuple(
        replace(one, low=ranges[one.name][0], high=ranges[one.name][1]) if ranges[one.name] else one
        for one in program.arguments
    )
    return replace(program, arguments=arguments)


def _type(kind: HalideType) -> Type:
    code, bits = kind
    return Type(bits, code == "int")


def _halide_type(kind: Type) -> HalideType:
    return "int" if kind.is_signed else "uint", kind.bits


class Names:
    """Names of the form for those of Halide, which have dots and dollars."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)

    def within(self) -> Names:
        """Names for what is known within a stage or loop only."""
        return Names(self._taken)

    def fresh(self, wanted: str) -> str:
        """A name like ``wanted`` that no other has."""
        plain = re.sub(r"[^A-Za-z0-9_]", "_", unnumbered(wanted))
        plain = f"{plain}_" if iskeyword(plain) else plain
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        found, number = plain, 1
        while found in self._taken:
            number += 1
            found = f"{plain}_{number}"
        self._taken.add(found)
        return found


class _Reading:
    def __init__(self, contents: Contents, known: Mapping[str, Place]) -> None:
        self._contents = contents
        tuples = {one: known[f"{one}.0"] for one in contents.outputs if f"{one}.0" in known}
        self._known = {**known, **tuples}
        self._names = Names()
        self._own: dict[str, str] = {}
        """The names of inputs and tables."""
        self._sizes: dict[tuple[str, int], Variable] = {}
        """By buffer and dimension."""
        self._arrays: dict[tuple[str, int], tuple[str, Type]] = {}
        """Name and type of each value of each Func."""
        self.spelled: dict[Expr, tuple[str, Sequence[Expr]]] = {}

    def program(self, name: str) -> loops.Program:
        contents = self._contents
        named = self._names.fresh(name)
        for one in contents.arguments:
            self._own[one] = self._names.fresh(one)
        tables = tuple(self._table(one, table) for one, table in contents.tables.items())
        funcs = by_name(contents)
        for func in funcs:
            for number, kind in enumerate(func.types):
                wanted = func.name if len(func.types) == 1 else f"{func.name}_{number}"
                made = _type(kind)
                self._arrays[func.name, number] = self._names.fresh(wanted), made
        stages = tuple(map(self._stage, funcs))
        arguments = tuple(self._input(one, *contents.inputs[one]) for one in contents.arguments)
        outputs = tuple(
            self._arrays[output, number][0]
            for output in contents.outputs
            for number in range(len(contents.funcs[output].types))
        )
        order = [*contents.arguments, *contents.outputs]
        found = sorted(self._sizes, key=lambda at: (order.index(at[0]), at[1]))
        sizes = tuple(self._sizes[one].name for one in found)
        return loops.Program(named, sizes, arguments, tables, stages, outputs)

    def _input(self, name: str, kind: HalideType, rank: int) -> loops.Scalar | loops.Buffer:
        own, made = self._own[name], _type(kind)
        if rank < 0:
            return loops.Scalar(own, made, made.low, made.high)
        sizes = [self._sizes.get((name, number)) for number in range(rank)]
        axes = [() if size is None else (Constant(0, INDEX), size) for size in sizes]
        return loops.Buffer(own, made, tuple(reversed(axes)), made.low, made.high)

    def _axis(self, buffer: str, number: int) -> tuple[Expr, ...]:
        if buffer in self._known:
            least, extent = (ends[number] for ends in self._known[buffer])
            return Constant(least, INDEX), Constant(least + extent, INDEX)
        if (buffer, number) not in self._sizes:
            named = self._names.fresh(f"{buffer}.extent.{number}")
            self._sizes[buffer, number] = Variable(named)
        return Constant(0, INDEX), self._sizes[buffer, number]

    def _table(self, name: str, table: Table) -> loops.Table:
        own = self._own[name] = self._names.fresh(name)
        made = _type(table.type)
        kept = np.frombuffer(table.data, made.dtype)
        steps = [stride * kept.itemsize for stride in table.strides[::-1]]
        elements = as_strided(kept, table.extents[::-1], steps).reshape(-1).tolist()
        return loops.Table(own, made, table.extents[::-1], tuple(map(int, elements)))

    def _stage(self, func: Func) -> loops.Stage:
        is_output = func.name in self._contents.outputs
        names = self._names.within()
        dimensions = {one: names.fresh(one) for one in func.dimensions}
        axes = [
            loops.Loop(own, *(self._axis(func.name, number) if is_output else ()))
            for number, own in enumerate(dimensions.values())
        ]
        scope: dict[str, Expr] = {one: Variable(own) for one, own in dimensions.items()}
        values = self._values(func, func.values, scope)
        if self._contents.folds and MIRRORS.match(func.name):
            values = tuple(rewritten(one, folded_once) for one in values)
        updates = tuple(self._update(func, one, dimensions, names.within()) for one in func.updates)
        arrays = tuple(self._arrays[func.name, number][0] for number in range(len(func.types)))
        return loops.Stage(arrays, tuple(reversed(axes)), values, updates)

    def _update(
        self, func: Func, update: Update, dimensions: Mapping[str, str], names: Names
    ) -> loops.Update:
        scope: dict[str, Expr] = {}
        nest = []
        for one, place in zip(func.dimensions, update.places, strict=True):
            if is_variable(place, one):
                scope[one] = Variable(dimensions[one])
                nest.append(loops.Loop(dimensions[one]))
        reduced = []
        for name, *bounds in update.rvars:
            least, extent = self._all(bounds, {})
            own = names.fresh(name)
            scope[name] = Variable(own)
            reduced.append(loops.Loop(own, least, _sum(least, extent)))
        condition = None if is_true(update.predicate) else self._of(update.predicate, scope)
        return loops.Update(
            (*reversed(nest), *reversed(reduced)),
            tuple(reversed(self._all(update.places, scope))),
            self._values(func, update.values, scope),
            condition,
        )

    def _values(
        self, func: Func, nodes: Iterable[Node], scope: Mapping[str, Expr]
    ) -> tuple[Expr, ...]:
        found = self._all(nodes, scope)
        fits = [one.type for one in found] == [*map(_type, func.types)]
        require(fits, f"its stage {func.name} has values of other types than its own")
        return tuple(map(_stored, found))

    def _all(self, nodes: Iterable[Node], scope: Mapping[str, Expr]) -> list[Expr]:
        return [self._of(node, scope) for node in nodes]

    def _of(self, root: Node, scope: Mapping[str, Expr]) -> Expr:
        """The expression of ``root``, where names of loops and parts stand for those of ``scope``.

        Goes by a list of its own rather than by calls: sums of a thousand terms are read.
        """
        made: list[Expr] = []
        waiting: list[tuple[Node, Mapping[str, Expr], int]] = [(root, scope, -1)]
        while waiting:
            node, known, count = waiting.pop()
            parts = parts_of(node)
            if node.kind == "Let":
                if count < 0:
                    waiting += [(node, known, 0), (node["value"], known, -1)]
                elif count == 0:
                    waiting.append((node["body"], {**known, node["name"]: made.pop()}, -1))
                continue
            if count < 0 and parts:
                waiting.append((node, known, len(parts)))
                waiting += [(part, known, -1) for part in reversed(parts)]
                continue
            own = made[len(made) - len(parts) :]
            del made[len(made) - len(parts) :]
            made.append(self._node(node, own, known))
        return made[0]

    def _node(self, node: Node, parts: Sequence[Expr], scope: Mapping[str, Expr]) -> Expr:
        where = node.where
        kind = _type(type_in(node["type"], where)) if "type" in node.fields else BOOL
        if node.kind in ("IntImm", "UIntImm"):
            return Constant(node["value"], kind)
        if node.kind == "Variable":
            return self._variable(node, kind, scope)
        if node.kind in ("Cast", "Reinterpret"):
            bits = {kind.bits, parts[0].type.bits}
            fits = node.kind == "Cast" or (len(bits) == 1 and BOOL.bits not in bits)
            require(fits, f"{where} reinterprets {parts[0].type} as {kind}")
            return converted(kind, parts[0])
        if node.kind == "Not":
            return Unary("~", parts[0])
        if node.kind == "Select":
            return Select(*parts)
        if node.kind in _BINARY:
            return Binary(_BINARY[node.kind], *parts)
        require(node.kind == "Call", f"{where} uses a {node.kind}, which is not a number")
        name = node["name"]
        if is_read(node):
            return self._read(node, kind, parts)
        types = [_halide_type(one.type) for one in parts]
        fits = INTRINSICS[name].type_of(types, _halide_type(kind)) == _halide_type(kind)
        require(fits, f"{where} calls {name} with types it does not take")
        value = INTRINSICS[name].value(kind, *parts)
        if value not in parts:
            self.spelled[value] = name, parts
        return value

    def _variable(self, node: Node, kind: Type, scope: Mapping[str, Expr]) -> Expr:
        contents = self._contents
        name, owner = node["name"], node["param_name"] or node["image_name"]
        nothing = f"{node.where} depends on {name}, which is nothing in it"
        if not owner:
            require(name in scope and scope[name].type == kind, nothing)
            return scope[name]
        fixed = contents.fixed.get(name)
        if name == owner and contents.inputs.get(name) == (_halide_type(kind), -1):
            return Variable(self._own[name], kind) if fixed is None else Constant(fixed, kind)
        match = _OF_A_BUFFER.fullmatch(name)
        if match is None:
            raise NotTunableError(
                f"{node.where} depends on {name}; of buffers their min and extent are accepted"
            )
        is_least, number, table = match[2] == "min", int(match[3]), contents.tables.get(owner)
        rank = len(table.extents) if table else contents.inputs.get(owner, (BOOL, -1))[1]
        require(match[1] == owner and kind == INDEX and number < rank, nothing)
        if fixed is not None:
            return Constant(fixed, INDEX)
        place = (table.mins, table.extents) if table else self._known.get(owner)
        if place is not None:
            return Constant(place[0 if is_least else 1][number], INDEX)
        return self._axis(owner, number)[0 if is_least else 1]

    def _read(self, node: Node, kind: Type, parts: Sequence[Expr]) -> Expr:
        """An element of a Func, an input or a table."""
        name = node["name"]
        nothing = f"{node.where} calls {name[:60]!r}, which is nothing in it"
        if is_call_to_func(node):
            array, own = self._arrays.get((name, node["value_index"]), ("", kind))
            require(bool(array) and own == kind, nothing)
            indices = tuple(reversed(parts))
            if own != BOOL:
                return Load(array, indices, own)
            number = Load(array, indices, U8)
            self.spelled[number > 0] = "", [number]
            return number > 0
        table = self._contents.tables.get(name)
        mins = table.mins if table else [0] * len(parts)
        require(name in self._own and len(mins) == len(parts), nothing)
        places = [at - least if least else at for at, least in zip(parts, mins, strict=True)]
        return Load(self._own[name], tuple(reversed(places)), kind)


def _sum(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(left.value + right.value, INDEX)
    if isinstance(right, Binary) and right.operator == "-" and right.right is left:
        return right.left  # an extent, as people write it who know where it ends
    return right if isinstance(left, Constant) and left.value == 0 else left + right


def _stored(value: Expr) -> Expr:
    """A value as an array has it."""
    return Cast(U8, value) if value.type == BOOL else value
