"""A serialized pipeline as a program (:mod:`tuner.program`), structure by structure.

Arguments are in the order of Halide's calls: buffers by name, then scalars. Stages keep their
names, as far as they are names; a Func of conditions becomes one of 0 and 1. An
axis of an input whose extent the pipeline asks for begins at 0 and has a size, ``NAME_extent_N``
(N counted as Halide does, from the innermost); others reach as far as they are read. Those of
outputs are sizes as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from keyword import iskeyword

import numpy as np

from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    Table,
    Update,
    asked,
    checked,
    is_call_to_func,
    is_true,
    is_variable,
    parts_of,
)
from tuner.codegen.halide.uploads.intrinsics import Type as HalideType
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
    UnaryOperator,
    Variable,
    clamped,
    equal,
    maximum,
)
from tuner.program.types import BOOL, I64, INDEX, U8, U64, Type

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
_OF_A_BUFFER = re.compile(r".+\.(min|extent)\.(\d+)")


def program_of(data: bytes, name: str = "pipeline") -> loops.Program:
    """The program that the serialized pipeline ``data`` is.

    Raises what :func:`checked` does, ``NotTunableError`` also for numbers that are no integers, and
    ``ProgramError`` if it fits the form in no other way.
    """
    return read_program(checked(data), name)


def read_program(contents: Contents, name: str = "pipeline") -> loops.Program:
    """The same of a pipeline that was checked."""
    return _Reading(contents).program(name)


def _type(kind: HalideType, where: str) -> Type:
    code, bits = kind
    if code not in ("int", "uint"):
        raise NotTunableError(
            f"{where} computes in {code}{bits}; integers are accepted. Write it in fixed point"
        )
    return Type(bits, code == "int")


class _Names:
    """Names of the form for those of Halide, which have dots and dollars."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = set(taken)

    def within(self) -> _Names:
        """Names for what is known within a stage or loop only."""
        return _Names(self._taken)

    def fresh(self, wanted: str) -> str:
        """A name like ``wanted`` that no other has."""
        plain = re.sub(r"\$\d+(?=\.|$)", "", wanted)  # by which Halide tells namesakes apart
        plain = re.sub(r"[^A-Za-z0-9_]", "_", plain)
        plain = f"{plain}_" if iskeyword(plain) else plain
        plain = plain if re.match(r"[A-Za-z_]", plain) else f"_{plain}"
        found, number = plain, 1
        while found in self._taken:
            number += 1
            found = f"{plain}_{number}"
        self._taken.add(found)
        return found


class _Reading:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._asked = asked(contents)
        self._names = _Names()
        self._own: dict[str, str] = {}
        """The names of inputs and tables."""
        self._sizes: dict[str, Variable] = {}
        """Sizes by what Halide calls them, such as ``image.extent.0``."""
        self._arrays: dict[tuple[str, int], tuple[str, Type]] = {}
        """Name and type of each value of each Func."""

    def program(self, name: str) -> loops.Program:
        contents = self._contents
        named = self._names.fresh(name)
        called = sorted(contents.inputs.items(), key=lambda one: (one[1][1] < 0, one[0]))
        arguments = tuple(self._input(one, *about) for one, about in called)
        tables = tuple(self._table(one, table) for one, table in contents.tables.items())
        for func in contents.funcs.values():
            for number, kind in enumerate(func.types):
                wanted = func.name if len(func.types) == 1 else f"{func.name}_{number}"
                made = _type(kind, f"its stage {func.name}")
                self._arrays[func.name, number] = self._names.fresh(wanted), made
        for output in contents.outputs:
            for number in range(len(contents.funcs[output].dimensions)):
                self._axis(f"{output}.extent.{number}")
        stages = tuple(self._stage(func) for func in contents.funcs.values())
        outputs = tuple(
            self._arrays[output, number][0]
            for output in contents.outputs
            for number in range(len(contents.funcs[output].types))
        )
        sizes = tuple(size.name for size in self._sizes.values())
        return loops.Program(named, sizes, arguments, tables, stages, outputs)

    def _input(self, name: str, kind: HalideType, rank: int) -> loops.Scalar | loops.Buffer:
        own = self._own[name] = self._names.fresh(name)
        made = _type(kind, f"its input {name}")
        if rank < 0:
            return loops.Scalar(own, made, made.low, made.high)
        found = self._asked.get(name, ())
        axes = [self._axis(f"{name}.extent.{n}") if n in found else () for n in range(rank)]
        return loops.Buffer(own, made, tuple(reversed(axes)), made.low, made.high)

    def _axis(self, extent: str) -> tuple[Expr, ...]:
        if extent not in self._sizes:
            self._sizes[extent] = Variable(self._names.fresh(extent))
        return Constant(0, INDEX), self._sizes[extent]

    def _table(self, name: str, table: Table) -> loops.Table:
        own = self._own[name] = self._names.fresh(name)
        made = _type(table.type, f"its buffer {name}")
        elements = np.frombuffer(table.data, made.dtype).tolist()
        return loops.Table(own, made, table.extents[::-1], tuple(map(int, elements)))

    def _stage(self, func: Func) -> loops.Stage:
        is_output = func.name in self._contents.outputs
        names = self._names.within()
        dimensions = {one: names.fresh(one) for one in func.dimensions}
        axes = [
            loops.Loop(own, *(self._axis(f"{func.name}.extent.{number}") if is_output else ()))
            for number, own in enumerate(dimensions.values())
        ]
        scope: dict[str, Expr] = {one: Variable(own) for one, own in dimensions.items()}
        values = tuple(map(_stored, self._all(func, func.values, scope)))
        updates = tuple(self._update(func, one, dimensions, names.within()) for one in func.updates)
        arrays = tuple(self._arrays[func.name, number][0] for number in range(len(func.types)))
        return loops.Stage(arrays, tuple(reversed(axes)), values, updates)

    def _update(
        self, func: Func, update: Update, dimensions: Mapping[str, str], names: _Names
    ) -> loops.Update:
        scope: dict[str, Expr] = {}
        nest = []
        for one, place in zip(func.dimensions, update.places, strict=True):
            if is_variable(place, one):
                scope[one] = Variable(dimensions[one])
                nest.append(loops.Loop(dimensions[one]))
        reduced = []
        for name, *bounds in update.rvars:
            least, extent = self._all(func, bounds, {})
            own = names.fresh(name)
            scope[name] = Variable(own)
            reduced.append(loops.Loop(own, least, _sum(least, extent)))
        condition = None if is_true(update.predicate) else self._of(func, update.predicate, scope)
        return loops.Update(
            (*reversed(nest), *reversed(reduced)),
            tuple(reversed(self._all(func, update.places, scope))),
            tuple(map(_stored, self._all(func, update.values, scope))),
            condition,
        )

    def _all(self, func: Func, nodes: Iterable[Node], scope: Mapping[str, Expr]) -> list[Expr]:
        return [self._of(func, node, scope) for node in nodes]

    def _of(self, func: Func, root: Node, scope: Mapping[str, Expr]) -> Expr:
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
            made.append(self._node(func, node, own, known))
        return made[0]

    def _node(
        self, func: Func, node: Node, parts: Sequence[Expr], scope: Mapping[str, Expr]
    ) -> Expr:
        kind = _type(self._contents.types[node], f"its stage {func.name}")
        if node.kind in ("IntImm", "UIntImm"):
            return Constant(node["value"], kind)
        if node.kind == "Variable":
            return self._variable(node, kind, scope)
        if node.kind in ("Cast", "Reinterpret"):
            return _cast(kind, parts[0])
        if node.kind == "Not":
            return Unary("~", parts[0])
        if node.kind == "Select":
            return Select(*parts)
        if node.kind in _BINARY:
            return Binary(_BINARY[node.kind], *parts)
        if is_call_to_func(node):
            array, own = self._arrays[node["name"], node["value_index"]]
            indices = tuple(reversed(parts))
            return Load(array, indices, own) if own != BOOL else Load(array, indices, U8) > 0
        if node["call_type"] == "Image":
            return self._element(node["name"], parts, kind)
        made = _MEANINGS.get(node["name"])
        if made is None:
            raise NotTunableError(f"its stage {func.name} calls {node['name']} in a way not read")
        return made(kind, *parts)

    def _variable(self, node: Node, kind: Type, scope: Mapping[str, Expr]) -> Expr:
        name, owner = node["name"], node["param_name"] or node["image_name"]
        if not owner:
            return scope[name]
        match = _OF_A_BUFFER.fullmatch(name)
        if owner in self._contents.inputs and match is None:
            return Variable(self._own[owner], kind)
        assert match is not None  # noqa: S101 - nothing else is accepted
        if owner in self._contents.tables:
            table = self._contents.tables[owner]
            found = table.mins if match[1] == "min" else table.extents
            return Constant(found[int(match[2])], INDEX)
        return (
            Constant(0, INDEX) if match[1] == "min" else self._sizes[f"{owner}.extent.{match[2]}"]
        )

    def _element(self, name: str, parts: Sequence[Expr], kind: Type) -> Expr:
        mins = self._contents.tables[name].mins if name in self._contents.tables else ()
        indices = [
            index - least if least else index
            for index, least in zip(parts, mins or [0] * len(parts), strict=True)
        ]
        return Load(self._own[name], tuple(reversed(indices)), kind)


def _sum(left: Expr, right: Expr) -> Expr:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(left.value + right.value, INDEX)
    if isinstance(right, Binary) and right.operator == "-" and right.right is left:
        return right.left  # an extent, as people write it who know where it ends
    return right if isinstance(left, Constant) and left.value == 0 else left + right


def _stored(value: Expr) -> Expr:
    """A value as an array has it."""
    return Cast(U8, value) if value.type == BOOL else value


def _cast(kind: Type, value: Expr, *, saturates: bool = False) -> Expr:
    if kind == value.type:
        return value
    if kind == BOOL:
        return Unary("~", equal(value, 0))
    return Cast(kind, value, saturates)


# Halide's intrinsics in terms of the form: FindIntrinsics.cpp and Lerp.cpp of Halide 21.

_Meaning = Callable[..., Expr]


def _wider(kind: Type) -> Type:
    if kind.bits > 32:
        raise NotTunableError(f"it computes in {kind} what takes more than 64 bits on the way")
    return Type(2 * kind.bits, kind.is_signed)


def _binary(by: BinaryOperator) -> _Meaning:
    return lambda kind, a, b: Binary(by, a, b)


def _unary(by: UnaryOperator) -> _Meaning:
    return lambda kind, a: Unary(by, a)


def _on_the_way(value: _Meaning, of_widest: _Meaning, *, saturates: bool = False) -> _Meaning:
    """``value`` of the arguments widened with a sign, brought back to their type. Those of 64 bits
    have no wider type: ``of_widest`` of them."""

    def made(kind: Type, a: Expr, b: Expr) -> Expr:
        if kind.bits == I64.bits:
            return of_widest(a, b)
        wide = Type(_wider(kind).bits, True)
        return _cast(kind, value(_cast(wide, a), _cast(wide, b)), saturates=saturates)

    return made


def _widened(by: BinaryOperator) -> _Meaning:
    """``by`` of the arguments in the type of the result."""
    return lambda kind, a, b: Binary(by, _cast(kind, a), _cast(kind, b))


def _widened_shift(by: BinaryOperator) -> _Meaning:
    return lambda kind, a, b: Binary(
        by, _cast(kind, a), _cast(Type(kind.bits, b.type.is_signed), b)
    )


def _mean(a: Expr, b: Expr) -> Expr:
    return (a & b) + ((a ^ b) >> 1)


def _half_of_difference(a: Expr, b: Expr) -> Expr:
    return (a >> 1) - (b >> 1) - (Unary("~", a) & b & 1)


def _saturating(sign: int) -> _Meaning:
    """``a + sign * b`` of 64 bits, or the end of the type beyond which it is."""

    def made(a: Expr, b: Expr) -> Expr:
        kind, total = a.type, a + b if sign > 0 else a - b
        if not kind.is_signed:
            is_beyond = total < a if sign > 0 else a < b
            return Select(is_beyond, Constant(kind.high if sign > 0 else 0, kind), total)
        is_beyond = (a ^ total) & (b ^ total if sign > 0 else a ^ b) < 0
        end = Select(a < 0, Constant(kind.low, kind), Constant(kind.high, kind))
        return Select(is_beyond, end, total)

    return made


def _rounded(a: Expr, amount: Expr) -> Expr:
    """``a / 2 ** amount`` to the nearest, halves up; ``a`` has room for a bit more."""
    one = Constant(1, a.type)
    half = Select(amount > 0, one << maximum(amount - 1, 0), Constant(0, a.type))
    return (a + half) >> amount


def _rounding_shift(sign: int) -> _Meaning:
    def made(kind: Type, a: Expr, amount: Expr) -> Expr:
        if kind.bits == I64.bits:
            by = _cast(I64, amount) if sign > 0 else -_cast(I64, amount)
            below = Select(by > 0, _cast(kind, (a >> by - 1) & 1), Constant(0, kind))
            return (a >> by) + below
        wide = _wider(kind)
        by = _cast(Type(wide.bits, True), amount)
        return _cast(kind, _rounded(_cast(wide, a), by if sign > 0 else -by))

    return made


def _scaled(kind: Type, a: Expr, b: Expr, amount: Expr, *, rounds: bool) -> Expr:
    wide = _wider(kind)
    product = _cast(wide, a) * _cast(wide, b)
    by = _cast(Type(wide.bits, True), amount)
    return _cast(kind, _rounded(product, by) if rounds else product >> by, saturates=True)


def _toward_zero(kind: Type, a: Expr, b: Expr) -> Expr:
    if not kind.is_signed:
        return a // b
    quotient = _cast(kind, Unary("abs", a) // Unary("abs", b))
    zero = Constant(0, kind)
    return Select(Binary("!=", a < zero, b < zero), zero - quotient, quotient)


def _lerp(kind: Type, zero: Expr, one: Expr, weight: Expr) -> Expr:
    most = (1 << kind.bits) - 1
    most_weight = weight.type.high
    scaled = _cast(U64, weight)
    if most_weight <= most:
        scaled = scaled * (most // most_weight)
    else:
        scaled = scaled // (most_weight // most)
    parts = [_cast(U64, _cast(I64, part) - kind.low) for part in (zero, one)]
    total = parts[0] * (most - scaled) + parts[1] * scaled
    return _cast(kind, _cast(I64, (total + most // 2) // most) + kind.low)


def _mux(kind: Type, index: Expr, *values: Expr) -> Expr:
    chosen = values[-1]
    for number in range(len(values) - 2, -1, -1):
        chosen = Select(equal(index, number), values[number], chosen)
    return chosen


def _concat(kind: Type, *parts: Expr) -> Expr:
    bits = parts[0].type.bits
    wide = [_cast(kind, _cast(part.type.unsigned, part)) for part in parts]
    return reduce(lambda a, b: a | b, (one << n * bits for n, one in enumerate(wide)))


def _extract(kind: Type, a: Expr, lowest: Expr) -> Expr:
    own = a.type.unsigned
    return _cast(kind, _cast(own, a) >> _cast(own, lowest))


def _first(kind: Type, a: Expr, *_: Expr) -> Expr:
    return a


def _promised(kind: Type, value: Expr, low: Expr, high: Expr) -> Expr:
    # The value is the same, and bounds follow from it.
    return clamped(value, low, high)


_MEANINGS: Mapping[str, _Meaning] = {
    "bitwise_and": _binary("&"),
    "bitwise_or": _binary("|"),
    "bitwise_xor": _binary("^"),
    "bitwise_not": _unary("~"),
    "shift_left": _binary("<<"),
    "shift_right": _binary(">>"),
    "count_leading_zeros": _unary("clz"),
    "count_trailing_zeros": _unary("ctz"),
    "popcount": _unary("popcount"),
    "concat_bits": _concat,
    "extract_bits": _extract,
    "abs": lambda kind, a: _cast(kind, Unary("abs", a)),
    "absd": _binary("absd"),
    "halving_add": _on_the_way(lambda a, b: (a + b) >> 1, _mean),
    "halving_sub": _on_the_way(lambda a, b: (a - b) >> 1, _half_of_difference),
    "rounding_halving_add": _on_the_way(
        lambda a, b: (a + b + 1) >> 1, lambda a, b: (a | b) - ((a ^ b) >> 1)
    ),
    "sorted_avg": _on_the_way(lambda a, b: (a + b) >> 1, _mean),
    "saturating_add": _on_the_way(lambda a, b: a + b, _saturating(1), saturates=True),
    "saturating_sub": _on_the_way(lambda a, b: a - b, _saturating(-1), saturates=True),
    "saturating_cast": lambda kind, a: _cast(kind, a, saturates=True),
    "rounding_shift_left": _rounding_shift(-1),
    "rounding_shift_right": _rounding_shift(1),
    "widening_add": _widened("+"),
    "widening_sub": _widened("-"),
    "widening_mul": _widened("*"),
    "widening_shift_left": _widened_shift("<<"),
    "widening_shift_right": _widened_shift(">>"),
    "widen_right_add": _widened("+"),
    "widen_right_sub": _widened("-"),
    "widen_right_mul": _widened("*"),
    "mul_shift_right": lambda kind, *parts: _scaled(kind, *parts, rounds=False),
    "rounding_mul_shift_right": lambda kind, *parts: _scaled(kind, *parts, rounds=True),
    "lerp": _lerp,
    "div_round_to_zero": _toward_zero,
    "mod_round_to_zero": lambda kind, a, b: a - _toward_zero(kind, a, b) * b,
    "if_then_else": lambda kind, condition, *values: Select(condition, values[0], values[-1]),
    "mux": _mux,
    "likely": _first,
    "likely_if_innermost": _first,
    "promise_clamped": _promised,
    "unsafe_promise_clamped": _promised,
}
