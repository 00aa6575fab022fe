"""A program as plain C: its loops, one stage after the other.

In scope of the C are, by :func:`c_name`, the scalars, and for each buffer ``B`` of an argument or
output a pointer to its first element and ``B_stride_D`` for its dimensions, 0 innermost
(``B_stride_0`` is 1 and has no name); besides them ``scratch(bytes)``, which is memory until the
function returns (``codegen/prelude.h``). Sizes are numbers in it, or where a caller chooses them
(:mod:`tuner.program.spans`) taken from ``B_extent_D``, and checked. What wraps in the form wraps in
C, except in indices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from typing import NamedTuple

from tuner.program.bounds import Bounds, Box
from tuner.program.c_operators import Operators, Text, chosen, constant, infix, typename
from tuner.program.expressions import (
    Binary,
    Constant,
    Expr,
    Load,
    ProgramError,
    Select,
    Variable,
    loads_in,
    ordered,
)
from tuner.program.intervals import Interval, Patience, Scope, of_type, unconditional_parts
from tuner.program.loops import Loop, Stage, Update
from tuner.program.spans import Extent, Opened
from tuner.program.types import Type

_STEP = "    "
_UNNAMED = 6
"""Nodes of a part that is written out wherever it is used."""
_DEEPEST = 50
"""Parts within parts that are written out: clang takes 256 brackets."""
_CHARACTERS_A_STEP = 64
"""Of text, for one node that is looked at."""
FEW = 4
"""Channels of a pixel."""
_MOST_BYTES = 1 << 27
_MOST_INDEX = 1 << 30
"""Between two of which there are as many as an index holds."""
_APART = 256
"""Bytes: arrays begin at multiples of it, and so at a vector's boundary."""
_RESERVED = re.compile(
    "asm|auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|"
    "inline|int|long|main|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|"
    "typeof|union|unsigned|void|volatile|while|u?int(8|16|32|64|ptr)_t|"
    "held|kernel|release|scratch|clamped|halide_.*|_.*_buffer|"
    "VECTOR_BYTES|CONSTRAINT_VIOLATED|OUT_OF_MEMORY|UNALIGNED_HOST|"
    "(min|max|absd|div|mod|shl|shr|sat|abs|popcount|clz|ctz)_.*|.*_|.*_own|.*_(stride|extent)_\\d+"
)
"""C's words, those of this module and of what its text is put into, names of its functions, and
what :func:`c_name` makes of one of these."""


class Order(NamedTuple):
    """How loops are nested that may be in any order.

    ``rows``: a reduction's loops lie around that along a row (:func:`has_rows_of_sums`). Of a
    definition that :func:`turns` the two innermost change places (``columns``), or walk in squares
    of so many elements a side (``block``, not 0); of one that has :func:`channels_apart` their
    loop is innermost (``pixels``).
    """

    rows: bool = False
    columns: bool = False
    pixels: bool = False
    block: int = 0


def turns(bounds: Bounds, stage: Stage) -> bool:
    """Whether its definition reads along another axis what it stores along rows."""
    box = bounds.boxes.get(stage.name, ())[-2:]
    is_small = len(box) < 2 or min(map(_extent, box)) <= FEW
    if is_small or channels_apart(bounds, stage) or not _is_free(stage.axes[-2], stage.axes):
        return False
    *others, row = (axis.index for axis in stage.axes)
    for load in loads_in(*stage.values):
        along = set(ordered(load.indices[-1:]))
        if row in ordered(load.indices[:-1]) and row not in along and along.intersection(others):
            return True
    return False


def channels_apart(bounds: Bounds, stage: Stage) -> Loop | None:
    """The axis along which a stage stores in planes of its own what it reads side by side, if it
    has one of a few elements."""
    lasts = [node for load in loads_in(*stage.values) for node in ordered(load.indices[-1:])]
    for axis, box in zip(stage.axes[:-1], bounds.boxes.get(stage.name, ()), strict=False):
        if _extent(box) <= FEW and axis.index in lasts and _is_free(axis, stage.axes):
            return axis
    return None


def _is_free(loop: Loop, others: Iterable[Loop]) -> bool:
    """Whether the bounds of no other loop depend on ``loop``: it may go inside of them."""
    return all(loop.index not in ordered(one.bounds) for one in others)


def has_rows_of_sums(stage: Stage) -> bool:
    """Whether it has an update with loops of its own within the one along a row, which may go
    inside: without bounds, it leaves each element to itself."""
    return any(_with_rows_inside(stage, one.loops) != one.loops for one in stage.updates)


def _with_rows_inside(stage: Stage, loops: Sequence[Loop]) -> Sequence[Loop]:
    rows = [one for one in loops if stage.axes and one.name == stage.axes[-1].name]
    others = [one for one in loops if one not in rows]
    if not rows or rows[0].bounds or not _is_free(rows[0], others):
        return loops
    return (*others, *rows)


class PlainC(NamedTuple):
    """``loops`` of a function's body, and the ``functions`` that they call."""

    functions: str
    loops: str


def plain_c(
    bounds: Bounds,
    firsts: Mapping[str, Sequence[int]],
    order: Order | None = None,
    opened: Sequence[Opened] = (),
) -> PlainC:
    """The C of a program that has ``bounds``. Where it is ``opened`` they are those of the usual
    sizes and decide nothing but the order of loops; of several, the first that fits a call takes
    it. ``firsts`` are the indices of the first elements of inputs, by name, along the axes that the
    program leaves open.

    Raises ``ProgramError`` for what is too long for C, or takes too much memory.
    """
    usual = replace(bounds, patience=Patience())
    if not opened:
        source = _Source(usual, usual, firsts, order or Order())
        loops = "\n".join(source.body())
        return PlainC("\n".join(source.operators.definitions()), loops)
    operators, lines = Operators(), list[str]()
    for number, one in enumerate(opened):
        of_all = replace(one, bounds=replace(one.bounds, patience=Patience()))
        source = _OpenSource(usual, of_all, firsts, order or Order(), operators)
        lines += [f"{'else ' if number else ''}{source.head()}{{", *source.body(), "}"]
    return PlainC("\n".join(operators.definitions()), "\n".join(lines))


def c_name(name: str) -> str:
    """``name``, or another where C or what the text is put into uses that."""
    return f"{name}_own" if _RESERVED.fullmatch(name) else name


class _Axis(NamedTuple):
    """Of a buffer: its first index, and the elements from one index to the next."""

    first: str
    stride: str


class _Over(NamedTuple):
    """Along an axis of an array: its first index, the end behind its last, and how many that is."""

    begin: str
    end: str
    extent: str


class _Source:
    """``usual`` bounds decide the order of loops, ``bounds`` all else."""

    def __init__(
        self,
        usual: Bounds,
        bounds: Bounds,
        firsts: Mapping[str, Sequence[int]],
        order: Order,
        operators: Operators | None = None,
    ) -> None:
        self._usual, self._bounds, self._program = usual, bounds, bounds.program
        self._order = order
        self.operators = operators or Operators()
        self._layouts: dict[str, Sequence[_Axis]] = {}
        program = self._program
        for buffer in program.inputs:
            starts = [
                str(first) if not axis else self._first(axis[0])
                for axis, first in zip(buffer.axes, firsts[buffer.name], strict=True)
            ]
            self._layouts[buffer.name] = _given(buffer.name, starts)
        for table in program.tables:
            self._layouts[table.name] = _dense([_over(Interval(0, e - 1)) for e in table.extents])
        for stage in self._stages():
            over = self._over(stage)
            for array in stage.arrays:
                starts = [one.begin for one in over]
                is_given = array in program.outputs
                self._layouts[array] = _given(array, starts) if is_given else _dense(over)

    def _stages(self) -> Sequence[Stage]:
        return [one for one in self._program.stages if one.name in self._bounds.boxes]

    def _over(self, stage: Stage) -> Sequence[_Over]:
        """Where the axes of ``stage`` go."""
        return list(map(_over, self._bounds.boxes[stage.name]))

    def _own(self) -> Sequence[tuple[str, Type, Stage]]:
        """The arrays that are no outputs."""
        return [
            (array, kind, stage)
            for stage in self._stages()
            for array, kind in zip(stage.arrays, stage.types, strict=True)
            if array not in self._program.outputs
        ]

    def _first(self, begin: Expr) -> str:
        first = self._bounds.scope().of(begin)
        return str(first.low) if first.low == first.high else f"({self._texts().of(begin)})"

    def body(self) -> Iterator[str]:
        """All of it, line by line."""
        program = self._program
        yield from self._sizes()
        for scalar in program.scalars:  # of others nothing is known
            ends = {"<": (scalar.low, scalar.type.low), ">": (scalar.high, scalar.type.high)}
            for by, (end, whole) in ends.items():
                if end != whole:
                    beyond = f"{c_name(scalar.name)} {by} {constant(end, scalar.type).text}"
                    yield f"if ({beyond}) return CONSTRAINT_VIOLATED;"
        for table in program.tables:
            elements = ", ".join(constant(one, table.type).text for one in table.elements)
            yield f"static const {typename(table.type)} {c_name(table.name)}[] = {{{elements}}};"
        yield from self._memory()
        for stage in self._stages():
            yield from self._stage(stage)

    def _sizes(self) -> Iterator[str]:
        bounds = self._bounds
        sizes = [f"{c_name(name)} = {bounds.sizes[name]}" for name in self._program.sizes]
        if sizes:
            yield f"enum {{ {', '.join(sizes)} }};"

    def _memory(self) -> Iterator[str]:
        """Of the arrays that are no outputs: one piece for all."""
        own = [
            (array, kind, prod(map(_extent, self._bounds.boxes[stage.name])) * kind.bits // 8)
            for array, kind, stage in self._own()
        ]
        ends = [0, *accumulate(-(-count // _APART) * _APART for _, _, count in own)]
        if ends[-1] > _MOST_BYTES:
            raise ProgramError(f"the stages of {self._program.name} take {ends[-1]} bytes")
        if ends[-1]:
            yield f"uint8_t *const memory_ = scratch({ends[-1]});"
        for (array, kind, _), begin in zip(own, ends, strict=False):
            named = f"{typename(kind)} *restrict {c_name(array)}"
            yield f"{named} = (void *)(memory_ + {begin});" if ends[-1] else f"{named} = 0;"

    def _stage(self, stage: Stage) -> Iterator[str]:
        definition = Update(stage.axes, stage.places, stage.values)
        for update in (definition, *stage.updates):
            scope = self._bounds.within(stage, update.loops)
            heads = list(self._heads(stage, update, scope, is_pure=update is definition))
            for depth, head in enumerate(heads):
                yield f"{_STEP * depth}{head} {{"
            inside = _STEP * len(heads)
            yield from (f"{inside}{line}" for line in self._stored(stage, update, scope))
            yield from (f"{_STEP * outer}}}" for outer in reversed(range(len(heads))))

    def _heads(
        self, stage: Stage, update: Update, scope: Scope | None, *, is_pure: bool
    ) -> Iterator[str]:
        loops, order, block = update.loops, self._order, 0
        apart = channels_apart(self._usual, stage) if is_pure and order.pixels else None
        if apart is not None:
            loops = (*(one for one in loops if one is not apart), apart)
        elif is_pure and turns(self._usual, stage):
            block = order.block
            loops = (*loops[:-2], *loops[:-3:-1]) if order.columns else loops
        elif order.rows and not is_pure:
            loops = tuple(_with_rows_inside(stage, loops))
        ranges = [(c_name(one.name), *self._range(stage, one, scope)) for one in loops]
        blocked = ranges[-2:] if block else []
        for name, begin, end in ranges[: len(ranges) - len(blocked)]:
            yield f"for (int32_t {name} = {begin}; {name} < {end}; ++{name})"
        for name, begin, end in blocked:
            step = f"{name}_block_ += {block}"
            yield f"for (int32_t {name}_block_ = {begin}; {name}_block_ < {end}; {step})"
        for (name, _, end), over in zip(blocked, self._over(stage)[-2:], strict=False):
            last = f"{name}_block_ + {block}"
            if not over.extent.isdigit() or int(over.extent) % block:
                last = f"({last} < {end} ? {last} : {end})"
            yield f"for (int32_t {name} = {name}_block_; {name} < {last}; ++{name})"

    def _range(self, stage: Stage, loop: Loop, scope: Scope | None) -> tuple[str, str]:
        bounds = stage.bounds_of(loop)
        if bounds:
            texts = self._texts((), scope)
            return texts.of(bounds[0]), texts.of(bounds[1])
        number = [axis.name for axis in stage.axes].index(loop.name)
        begin, end, _ = self._over(stage)[number]
        return begin, end

    def _stored(self, stage: Stage, update: Update, scope: Scope | None) -> Iterator[str]:
        if update.condition is not None:
            texts = self._texts([update.condition], scope)
            yield from texts.lines
            yield f"if ({texts.of(update.condition)}) {{"
            scope = scope.under(update.condition, True) if scope is not None else None
        roots = (*update.places, *update.values)
        texts = self._texts(roots, scope)
        lines = [*texts.lines]
        values = list(map(texts.of, update.values))
        if len(values) > 1:
            for number, (value, kind) in enumerate(zip(values, stage.types, strict=True)):
                lines.append(f"const {typename(kind)} value{number}_ = {value};")
            values = [f"value{number}_" for number in range(len(values))]
        for array, value in zip(stage.arrays, values, strict=True):
            lines.append(f"{c_name(array)}[{texts.place(array, update.places)}] = {value};")
        is_under = update.condition is not None
        yield from (f"{_STEP if is_under else ''}{line}" for line in lines)
        if is_under:
            yield "}"

    def _texts(self, roots: Sequence[Expr] = (), scope: Scope | None = None) -> _Texts:
        scope = scope or self._bounds.scope()
        return _Texts(roots, self._layouts, self._certain(), self.operators, scope)

    def _certain(self) -> Mapping[str, Box]:
        """What buffers have in any case."""
        return self._bounds.boxes


class _OpenSource(_Source):
    """Where a caller chooses sizes, but for those that are fixed in the bounds of ``opened``."""

    def __init__(
        self,
        usual: Bounds,
        opened: Opened,
        firsts: Mapping[str, Sequence[int]],
        order: Order,
        operators: Operators,
    ) -> None:
        self._opened = opened
        super().__init__(usual, opened.bounds, firsts, order, operators)

    def head(self) -> str:
        """Which calls it takes: those of fixed sizes, with pixels side by side."""
        sizes = self._bounds.sizes
        fixed = [f"{self._extent(one)} == {sizes[one.size]}" for one in self._fixed()]
        fixed += [f"{name} == {count}" for name, count in self._pixels().items()]
        return f"if ({' && '.join(fixed)}) " if fixed else ""

    def _fixed(self) -> Sequence[Extent]:
        return [one for one in self._opened.extents if one.size in self._bounds.sizes]

    def _extent(self, one: Extent) -> str:
        return f"{c_name(one.buffer)}_extent_{len(self._layouts[one.buffer]) - 1 - one.axis}"

    def _pixels(self) -> Mapping[str, int]:
        """Strides from pixel to pixel of as many channels."""
        return {
            f"{c_name(one.buffer)}_stride_1": self._bounds.sizes[one.size]
            for one in self._fixed()
            if one.axis and one.axis == len(self._layouts[one.buffer]) - 1
        }

    def _certain(self) -> Mapping[str, Box]:
        return {}

    def _over(self, stage: Stage) -> Sequence[_Over]:
        found = []
        for number, span in enumerate(self._opened.boxes[stage.name]):
            if isinstance(span.low, Constant) and isinstance(span.high, Constant):
                found.append(_over(Interval(span.low.value, span.high.value)))
            else:
                begin = span.low.value if isinstance(span.low, Constant) else None
                name = f"{stage.name}_begin_{number}_" if begin is None else str(begin)
                found.append(
                    _Over(name, f"{stage.name}_end_{number}_", f"{stage.name}_count_{number}_")
                )
        return found

    def _sizes(self) -> Iterator[str]:
        for name, count in self._pixels().items():
            yield f"enum {{ {name} = {count} }};"
        for one in self._opened.extents:
            size = c_name(one.size)
            if one.size in self._bounds.sizes:
                yield f"enum {{ {size} = {self._bounds.sizes[one.size]} }};"
                continue
            yield f"const int32_t {size} = {self._extent(one)};"
            beyond = f"{size} < 1 || {size} > {self._bounds.most[one.size]}"
            yield f"if ({beyond}) return CONSTRAINT_VIOLATED;"

    def _memory(self) -> Iterator[str]:
        texts = self._texts()
        for condition in self._opened.refused:
            yield f"if ({texts.of(condition)}) return CONSTRAINT_VIOLATED;"
        for stage in self._stages():
            spans, boxes = self._opened.boxes[stage.name], self._bounds.boxes[stage.name]
            for over, span, box in zip(self._over(stage), spans, boxes, strict=True):
                if over.extent.isdigit():
                    continue
                if max(abs(end) for end in box) >= _MOST_INDEX:
                    raise ProgramError(f"the stage {stage.name} reaches up to {box}")
                if not isinstance(span.low, Constant):
                    yield f"const int32_t {over.begin} = {texts.of(span.low)};"
                yield f"const int32_t {over.end} = {texts.of(span.high + 1)};"
                apart = f"{over.end} - {over.begin}"
                yield f"const int32_t {over.extent} = {apart} > 0 ? {apart} : 0;"
        own = self._own()
        if not own:
            return
        yield "int64_t bytes_, memory_bytes_ = 0;"
        for array, kind, stage in own:
            yield f"bytes_ = {kind.bits // 8};"
            for over in reversed(self._over(stage)):
                yield f"bytes_ *= {over.extent};"
                yield f"if (bytes_ > {_MOST_BYTES}) return OUT_OF_MEMORY;"
            yield f"const int64_t {array}_at_ = memory_bytes_;"
            yield f"memory_bytes_ += (bytes_ + {_APART - 1}) / {_APART} * {_APART};"
        yield f"if (memory_bytes_ > {_MOST_BYTES}) return OUT_OF_MEMORY;"
        yield f"uint8_t *const memory_ = scratch(memory_bytes_ + {_APART});"  # never none
        for array, kind, _ in own:
            named = f"{typename(kind)} *restrict {c_name(array)}"
            yield f"{named} = (void *)(memory_ + {array}_at_);"


def _offset(index: Expr, scope: Scope) -> tuple[Expr | None, int]:
    """``index`` as something, or nothing, and a number that is added to it."""
    offset = 0
    while isinstance(index, Binary) and index.operator in ("+", "-"):
        fits = of_type(index.type).covers(scope.exact(index))
        if not fits or not isinstance(index.right, Constant):
            break
        offset += index.right.value if index.operator == "+" else -index.right.value
        index = index.left
    if isinstance(index, Constant):
        return None, offset + index.value
    return index, offset


def _extent(one: Interval) -> int:
    return max(0, one.high - one.low + 1)


def _given(buffer: str, firsts: Sequence[str]) -> Sequence[_Axis]:
    """The layout of a buffer whose strides a caller knows."""
    last = len(firsts) - 1
    strides = [f"{c_name(buffer)}_stride_{last - n}" if n < last else "1" for n in range(last + 1)]
    return [_Axis(*one) for one in zip(firsts, strides, strict=True)]


def _over(one: Interval) -> _Over:
    return _Over(str(one.low), str(one.high + 1), str(_extent(one)))


def _dense(box: Sequence[_Over]) -> Sequence[_Axis]:
    axes: list[_Axis] = []
    number, names = 1, list[str]()
    for begin, _, extent in reversed(box):
        factors = [*names, *([str(number)] if number != 1 or not names else [])]
        stride = " * ".join(factors)
        axes.append(_Axis(begin, stride if len(factors) == 1 else f"({stride})"))
        if extent.isdigit():
            number *= int(extent)
        else:
            names.append(extent)
    return axes[::-1]


class _Texts:
    """The texts of expressions; ``lines`` define what is used more than once. A node whose name
    would be computed where it is not chosen gets none if it may read beyond a buffer then."""

    def __init__(
        self,
        roots: Sequence[Expr],
        layouts: Mapping[str, Sequence[_Axis]],
        boxes: Mapping[str, Box],
        operators: Operators,
        scope: Scope,
    ) -> None:
        self._layouts, self._boxes = layouts, boxes
        self._operators, self._scope = operators, scope
        self._values: dict[Expr, Text] = {}
        self.lines: list[str] = []
        uses = Counter(part for node in ordered(roots) for part in node.parts) + Counter(roots)
        certain = set(ordered(roots, unconditional_parts))
        sizes: dict[Expr, int] = {}
        depths: dict[Expr, int] = {}
        stays: dict[Expr, bool] = {}
        for node in ordered(roots):
            stays[node] = self._stays(node) and all(stays[part] for part in node.parts)
            sizes[node] = 1 + sum(sizes[part] for part in node.parts)
            self._add(node)
            depths[node] = 1 + max((depths[part] for part in node.parts), default=0)
            is_long = (uses[node] > 1 and sizes[node] > _UNNAMED) or depths[node] > _DEEPEST
            if is_long and (node in certain or stays[node]):
                name = f"t{len(self.lines)}_"
                self.lines.append(
                    f"const {typename(node.type)} {name} = {self._values[node].text};"
                )
                self._values[node] = Text(name)
                sizes[node] = depths[node] = 1

    def _stays(self, node: Expr) -> bool:
        """Whether ``node`` reads nothing beyond a buffer, whatever is chosen."""
        if not isinstance(node, Load):
            return True
        box = self._boxes.get(node.source, ())
        within = zip(box, map(self._scope.of, node.indices), strict=False)
        return bool(box) and all(own.covers(one) for own, one in within)

    def of(self, node: Expr) -> str:
        """The value of ``node``."""
        return self._text(node).text

    def _text(self, node: Expr) -> Text:
        for one in ordered([node], lambda n: [p for p in n.parts if p not in self._values]):
            if one not in self._values:
                self._add(one)
        return self._values[node]

    def place(self, buffer: str, indices: Sequence[Expr]) -> str:
        """Where the element of ``buffer`` at ``indices`` lies from its first."""
        found = None
        for index, (first, stride) in zip(indices, self._layouts[buffer], strict=True):
            moving, offset = _offset(index, self._scope)
            own = None if moving is None else self._text(moving)
            if first.lstrip("-").isdigit():
                offset -= int(first)
            else:
                own = infix("-", own or Text("0"), Text(first))
            if own is None:
                own = Text(str(offset)) if offset else None
            elif offset:
                own = infix("-" if offset < 0 else "+", own, Text(str(abs(offset))))
            if own is not None:
                moved = own if stride == "1" else infix("*", own, Text(stride))
                found = infix("+", found, moved) if found else moved
        return found.text if found is not None else "0"

    def _add(self, node: Expr) -> None:
        self._values[node] = made = self._made(node)
        self._scope.patience.step(len(made.text) // _CHARACTERS_A_STEP)

    def _made(self, node: Expr) -> Text:
        if isinstance(node, Variable):
            return Text(c_name(node.name))
        if isinstance(node, Load) and node.source not in self._layouts:
            return Text("0")  # under a condition that never holds, so nobody computes it
        if isinstance(node, Load):
            return Text(f"{c_name(node.source)}[{self.place(node.source, node.indices)}]")
        if isinstance(node, Constant):
            return constant(node.value, node.type)
        parts = [self._values[part] for part in node.parts]
        return (
            chosen(*parts)
            if isinstance(node, Select)
            else self._operators.value(node, parts, self._scope)
        )
