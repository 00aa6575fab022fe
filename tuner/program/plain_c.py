"""A program as plain C: its loops as they are written, one stage after the other.

The function takes the program's arguments in their order, then its outputs: scalars, and pointers
to dense buffers, outermost dimension first. It returns 0, or 1 if there is no memory. Sizes are
numbers in it. What wraps in the form wraps in C, except in indices.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tuner.program.bounds import Bounds, bounded
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
from tuner.program.intervals import Scope, of_type, unconditional_parts
from tuner.program.loops import Loop, Program, Scalar, Stage, Update

_STEP = "    "
_UNNAMED = 6
"""Nodes of a part that is written out wherever it is used."""
_DEEPEST = 50
"""Parts within parts that are written out: clang takes 256 brackets."""
_MOST_TEXT = 1 << 20
_RESERVED = re.compile(
    "auto|break|case|char|const|continue|default|do|double|else|enum|extern|float|for|goto|if|inline|"
    "int|long|main|register|restrict|return|short|signed|sizeof|static|struct|switch|typedef|union|"
    "unsigned|void|volatile|while|malloc|free|failed|u?int(8|16|32|64)_t|"
    "(min|max|absd|div|mod|shl|shr|sat|abs|popcount|clz|ctz)_.*|.*_"
)
"""C's words, those of this module, and names of its functions."""


def plain_c(program: Program, sizes: Mapping[str, int]) -> str:
    """The source of a C function of the program's name. Raises what :func:`bounded` does."""
    return _Source(bounded(program, sizes)).text()


def c_name(name: str) -> str:
    """``name``, or another where C or this module uses that."""
    return f"{name}_own" if _RESERVED.fullmatch(name) else name


class _Source:
    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._program = bounds, bounds.program
        self._operators = Operators()
        self._layouts: dict[str, Sequence[tuple[str, str]]] = {}
        """First index and extent along each axis, by buffer."""
        for buffer in self._program.inputs:
            self._layouts[buffer.name] = [
                self._axis(*axis) if axis else (str(over.low), str(_extent(over)))
                for axis, over in zip(buffer.axes, bounds.boxes[buffer.name], strict=True)
            ]
        for table in self._program.tables:
            self._layouts[table.name] = [("0", str(extent)) for extent in table.extents]
        for stage in self._program.stages:
            if stage.name in bounds.boxes:
                box = bounds.boxes[stage.name]
                layout = [(str(one.low), str(_extent(one))) for one in box]
                self._layouts |= dict.fromkeys(stage.arrays, layout)

    def text(self) -> str:
        """All of it."""
        body = list(self._body())
        return "\n".join(
            [
                "#include <stdint.h>",
                "#include <stdlib.h>",
                "",
                *self._operators.definitions(),
                f"int {c_name(self._program.name)}({', '.join(self._parameters())})",
                "{",
                *(f"{_STEP}{line}" for line in body),
                "}",
                "",
            ]
        )

    def _axis(self, begin: Expr, end: Expr) -> tuple[str, str]:
        scope = self._bounds.scope()
        first, extent = scope.of(begin), scope.of(end - begin)
        texts = self._texts()
        return (
            str(first.low) if first.low == first.high else f"({texts.of(begin)})",
            str(extent.low) if extent.low == extent.high else f"({texts.of(end - begin)})",
        )

    def _parameters(self) -> Iterator[str]:
        program = self._program
        for one in program.arguments:
            if isinstance(one, Scalar):
                yield f"{typename(one.type)} {c_name(one.name)}"
            else:
                yield f"const {typename(one.type)} *restrict {c_name(one.name)}"
        for name in program.outputs:
            stage = program.stage_of(name)
            kind = stage.types[stage.arrays.index(name)]
            yield f"{typename(kind)} *restrict {c_name(name)}"

    def _body(self) -> Iterator[str]:
        program = self._program
        sizes = [f"{c_name(name)} = {self._bounds.sizes[name]}" for name in program.sizes]
        if sizes:
            yield f"enum {{ {', '.join(sizes)} }};"
        for table in program.tables:
            elements = ", ".join(constant(one, table.type).text for one in table.elements)
            yield f"static const {typename(table.type)} {c_name(table.name)}[] = {{{elements}}};"
        stages = [one for one in program.stages if one.name in self._bounds.boxes]
        own = [
            (array, kind)
            for stage in stages
            for array, kind in zip(stage.arrays, stage.types, strict=True)
            if array not in program.outputs
        ]
        for array, kind in own:
            count = " * ".join(extent for _, extent in self._layouts[array]) or "1"
            size = f"(size_t){count} * sizeof({typename(kind)})"
            yield f"{typename(kind)} *restrict {c_name(array)} = malloc({size} + 1);"
        if own:
            yield f"const int failed = {' || '.join(f'!{c_name(array)}' for array, _ in own)};"
            yield "if (!failed) {"
        for stage in stages:
            yield from (f"{_STEP if own else ''}{line}" for line in self._stage(stage))
        if own:
            yield "}"
        yield from (f"free({c_name(array)});" for array, _ in own)
        yield "return failed;" if own else "return 0;"

    def _stage(self, stage: Stage) -> Iterator[str]:
        definition = Update(stage.axes, stage.places, stage.values)
        for update in (definition, *stage.updates):
            scope = self._bounds.within(stage, update.loops)
            for depth, loop in enumerate(update.loops):
                name, (begin, end) = c_name(loop.name), self._range(stage, loop, scope)
                head = f"for (int32_t {name} = {begin}; {name} < {end}; ++{name})"
                yield f"{_STEP * depth}{head} {{"
            depth = len(update.loops)
            yield from (f"{_STEP * depth}{line}" for line in self._stored(stage, update, scope))
            yield from (f"{_STEP * outer}}}" for outer in reversed(range(depth)))

    def _range(self, stage: Stage, loop: Loop, scope: Scope | None) -> tuple[str, str]:
        bounds = stage.bounds_of(loop)
        if bounds:
            texts = self._texts((), scope)
            return texts.of(bounds[0]), texts.of(bounds[1])
        number = [axis.name for axis in stage.axes].index(loop.name)
        over = self._bounds.boxes[stage.name][number]
        return str(over.low), str(over.high + 1)

    def _stored(self, stage: Stage, update: Update, scope: Scope | None) -> Iterator[str]:
        if update.condition is not None:
            texts = self._texts([update.condition], scope)
            yield from texts.lines
            yield f"if ({texts.of(update.condition)}) {{"
            scope = scope.under(update.condition, True) if scope is not None else None
        roots = (*update.places, *update.values)
        texts = self._texts(roots, scope)
        at = texts.place(stage.name, update.places)
        lines = [*texts.lines]
        if len(stage.arrays) == 1:
            lines.append(f"{c_name(stage.name)}[{at}] = {texts.of(update.values[0])};")
        else:
            lines.append(f"const int32_t at_ = {at};")
            for number, (value, kind) in enumerate(zip(update.values, stage.types, strict=True)):
                lines.append(f"const {typename(kind)} value{number}_ = {texts.of(value)};")
            for number, array in enumerate(stage.arrays):
                lines.append(f"{c_name(array)}[at_] = value{number}_;")
        is_under = update.condition is not None
        yield from (f"{_STEP if is_under else ''}{line}" for line in lines)
        if is_under:
            yield "}"

    def _texts(self, roots: Sequence[Expr] = (), scope: Scope | None = None) -> _Texts:
        return _Texts(roots, self._layouts, self._operators, scope or self._bounds.scope())


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


def _extent(one: Sequence[int]) -> int:
    low, high = one
    return max(0, high - low + 1)


class _Texts:
    """The texts of expressions; ``lines`` define what is used more than once. A node whose name
    would be computed where it is not chosen gets none if it reads anything."""

    def __init__(
        self,
        roots: Sequence[Expr],
        layouts: Mapping[str, Sequence[tuple[str, str]]],
        operators: Operators,
        scope: Scope,
    ) -> None:
        self._layouts, self._operators, self._scope = layouts, operators, scope
        self._values: dict[Expr, Text] = {}
        self.lines: list[str] = []
        uses = Counter(part for node in ordered(roots) for part in node.parts) + Counter(roots)
        certain = set(ordered(roots, unconditional_parts))
        sizes: dict[Expr, int] = {}
        depths: dict[Expr, int] = {}
        for node in ordered(roots):
            sizes[node] = 1 + sum(sizes[part] for part in node.parts)
            self._add(node)
            depths[node] = 1 + max((depths[part] for part in node.parts), default=0)
            is_long = (uses[node] > 1 and sizes[node] > _UNNAMED) or depths[node] > _DEEPEST
            if is_long and (node in certain or not loads_in(node)):
                name = f"t{len(self.lines)}_"
                self.lines.append(
                    f"const {typename(node.type)} {name} = {self._values[node].text};"
                )
                self._values[node] = Text(name)
                sizes[node] = depths[node] = 1

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
        for index, (first, extent) in zip(indices, self._layouts[buffer], strict=True):
            moving, offset = _offset(index, self._scope)
            own = None if moving is None else self._text(moving)
            if first.lstrip("-").isdigit():
                offset -= int(first)
            else:
                own = infix("-", own or Text("0"), Text(first))
            if own is None:
                own = Text(str(offset))
            elif offset:
                own = infix("-" if offset < 0 else "+", own, Text(str(abs(offset))))
            found = infix("+", infix("*", found, Text(extent)), own) if found else own
        return found.text if found is not None else "0"

    def _add(self, node: Expr) -> None:
        self._values[node] = made = self._made(node)
        if len(made.text) > _MOST_TEXT:
            raise ProgramError("an expression is too long for C", next_step="make it two stages")

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
