"""Plans of histograms: how often each byte of an image occurs is counted in registers.

The rest of the program is plain C, in which the update that counted bytes adds how often each of
256 values occurred. So it may look up, select or weigh them, and what follows may be anything.
``counting.h`` counts, by ``vhist``.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, "Histogram".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import NamedTuple, Self

from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.programs import Fitted
from tuner.codegen.wrapping import element_type
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.program.bounds import Bounds
from tuner.program.expressions import (
    Binary,
    Cast,
    Constant,
    Expr,
    Load,
    Variable,
    loads_in,
    ordered,
    rewritten,
)
from tuner.program.inlining import inlined, is_small
from tuner.program.loops import Buffer, Loop, Program, Stage, Update, names_in
from tuner.program.types import INDEX, U8, U32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob

_VALUES = 256
_OF_SIDE = ("extent", "stride")
_FUNCTIONS = Path(__file__).with_name("counting.h")
_REST = Knob(
    "hvx_rest", ("vectors", "scalars"), "what follows the counts: clang's vectorizer or not"
)
_COUNT = """
if (stride == width) width *= rows, rows = 1, stride = 0; /* dense */
const int is_aligned = ((uintptr_t)start | stride | OTHERS) % VECTOR_BYTES == 0;
const int is_whole = rows == 1 || width % VECTOR_BYTES == 0;
uint8_t *copied = is_aligned && is_whole ? 0 : scratch(MOST_COPIED * VECTOR_BYTES);
V *bins = scratch(REGISTERS * VECTOR_BYTES);
uint32_t *counts = scratch(256 * sizeof(uint32_t));
for (int n = 0; n < 256; ++n) counts[n] = 0;
"""


class _Side(NamedTuple):
    """Of the box that is counted: its first element, and how many there are, in C."""

    first: int
    extent: str


@dataclass(frozen=True)
class Histogram(Plan):
    """The ``box`` of the input of that ``number``, innermost dimension first, is counted; the
    ``rest`` has the counts as its first input, before all others."""

    accepted = "histograms of bytes"

    number: int
    box: tuple[_Side, ...]
    rest: Fitted

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        stage, number = _counting(program)
        if program.scalars or len(program.outputs) > 1:
            raise RefusedError("beside a histogram it has scalars, or several outputs")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        program = inlined(program, _is_counted(program))
        stage = program.stage_of(stage.name)
        source, load = _byte(program, stage, stage.updates[number])
        is_static = problem.contract is Contract.STATIC
        sizes = program.sizes_at({one.name: one.shape for one in specs}) if is_static else {}
        sides = list(_sides(source, stage.updates[number], load, Bounds(program, sizes)))
        box = tuple(side for side in sides if side)
        if len(box) < len(sides):
            raise RefusedError(f"its stage {stage.name} counts no box of {load.source}, once each")
        made = _of_counts(program, source, stage, number, load)
        counts = BufferSpec(made.inputs[0].name, "uint32", (_VALUES,), "input")
        rest = Fitted(made, (counts, *specs), (), is_open=not is_static)
        return cls(program.inputs.index(source), box, rest)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return (_REST, *self.rest.knobs)

    def switches(self, config: Config) -> list[str]:
        is_vector = config.text(_REST.name) == "vectors"
        return [*(("-mllvm", "-hexagon-autohvx") if is_vector else ()), *super().switches(config)]

    def written(self, config: Config) -> tuple[str, str]:
        code, parameters, arguments = self.rest.code(config), list[str](), list[str]()
        for number, spec in enumerate(self.rest.buffers):
            name = f"input{number - 1}" if spec.role == "input" else "output"
            parameters.append(f"{element_type(spec)} *restrict {spec.name}")
            arguments.append(name if number else "counts")
            sides = ["extent_0", *(f"{n}_{d}" for d in range(1, len(spec.shape)) for n in _OF_SIDE)]
            parameters += [f"int {spec.name}_{side}" for side in sides]
            arguments += [f"{name}_{side}" for side in sides] if number else [str(_VALUES)]
        functions = [
            _FUNCTIONS.read_text(),
            code.functions,
            f"static int rest({', '.join(parameters)}) {{",
            "struct held held __attribute__((cleanup(release))) = {0};",
            code.loops,
            "return 0;\n}",
        ]
        loops = [*self._counted(), f"return rest({', '.join(arguments)});"]
        return "\n".join(loops), "\n".join(functions)

    def _counted(self) -> Iterator[str]:
        """The C that fills ``counts``."""
        name, (across, *outer) = f"input{self.number}", self.box
        for d, side in enumerate(self.box):
            if side.extent.isdigit():  # of sizes that a caller chooses there may be too few
                end = side.first + int(side.extent)
                yield f"if ({name}_extent_{d} < {end}) return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        first = [f"{side.first} * {name}_stride_{d}" for d, side in enumerate(outer, start=1)]
        yield f"const uint8_t *start = {' + '.join([name, str(across.first), *first])};"
        rows, stride = (outer[0].extent, f"{name}_stride_1") if outer else ("1", "0")
        yield f"int width = {across.extent}, rows = {rows}, stride = {stride};"
        others = {f"i{d}": f"{name}_stride_{d}" for d in range(2, len(self.box))}
        yield _COUNT.replace("OTHERS", " | ".join(others.values()) or "0")
        for index, side in zip(others, outer[1:], strict=True):
            yield f"for (int {index} = 0; {index} < {side.extent}; ++{index})"
        place = " + ".join(["start", *(f"{index} * {step}" for index, step in others.items())])
        yield f"count({place}, width, rows, stride, bins, copied, counts);"


def _counting(program: Program) -> tuple[Stage, int]:
    """The first stage with an update that stores where elements say, and that update's number."""
    for stage in program.stages:
        for number, update in enumerate(stage.updates):
            if loads_in(*update.places):
                return stage, number
    raise NoPlanError("it counts nothing")


def _is_counted(program: Program) -> Callable[[Stage], bool]:
    """Whether a stage is small, and computed for updates alone."""
    small, read = is_small(program), set[str]()
    for stage in reversed(program.stages):
        if stage.updates or stage.name in read:
            read |= {load.source for load in loads_in(*stage.expressions)}
    return lambda stage: small(stage) and stage.name in read


def _byte(program: Program, stage: Stage, update: Update) -> tuple[Buffer, Load]:
    """The element of an input by which ``update`` counts."""
    inputs = {one.name: one for one in program.inputs}
    loads = [one for one in loads_in(*update.expressions) if one.source in inputs]
    if len(stage.arrays) > 1 or len(loads) != 1:
        raise RefusedError(f"its stage {stage.name} counts by several elements at once")
    if loads[0].type != U8:
        raise RefusedError(f"its stage {stage.name} counts by elements of {loads[0].type}, not u8")
    return inputs[loads[0].source], loads[0]


def _sides(source: Buffer, update: Update, load: Load, bounds: Bounds) -> Iterator[_Side | None]:
    """Those of the box that ``load`` goes over, innermost first; ``None`` where that is none."""
    loops: dict[Expr | None, Loop] = {loop.index: loop for loop in update.loops if loop.bounds}
    number, scope = bounds.program.inputs.index(source), bounds.scope()
    for d, (index, axis) in enumerate(zip(load.indices[::-1], source.axes[::-1], strict=True)):
        scope.exact(index)
        terms = scope.terms(index)
        offset, loop = terms.pop(None, 0), loops.pop(next(iter(terms), None), None)
        if loop is None or [*terms.values()] != [1]:
            yield None
            return
        begin, end = map(scope.of, loop.bounds)
        if begin.low == begin.high and end.low == end.high:
            yield _Side(begin.low + offset, str(max(0, end.low - begin.low)))
        else:
            is_all = begin == (0, 0) and not offset and axis and axis[1] is loop.bounds[1]
            yield _Side(0, f"input{number}_extent_{d}") if is_all else None
    if loops:
        yield None


def _of_counts(program: Program, source: Buffer, stage: Stage, number: int, load: Load) -> Program:
    """``program`` with the counts of bytes as its first input, by which that update counts."""
    update, taken = stage.updates[number], names_in(program)
    byte, name = (
        next(name for name in map(f"{own}{{}}".format, count()) if name not in taken)
        for own in ("byte", "counts")
    )
    index, ends = Variable(byte), tuple(Constant(n, INDEX) for n in (0, _VALUES))
    counts = Buffer(name, U32, (ends,), 0, U32.high)

    def by_value(root: Expr) -> Expr:
        return rewritten(root, lambda node: Cast(U8, index) if node is load else node)

    places = tuple(map(by_value, update.places))
    condition = None if update.condition is None else by_value(update.condition)
    own, total = stage.at(*places), by_value(update.values[0])
    if not isinstance(total, Binary) or total.operator != "+" or own not in total.parts:
        raise RefusedError(f"its stage {stage.name} does more than to add to what it has counted")
    added = total.left if total.right is own else total.right
    nodes = set(ordered([added, *places, *([] if condition is None else [condition])]))
    if nodes.intersection(loop.index for loop in update.loops) or any(map(stage.is_own, nodes)):
        raise RefusedError(f"its stage {stage.name} counts by more than the value of a byte")
    loop = Loop(index.name, *(Constant(n, INDEX) for n in (source.low, source.high + 1)))
    value = own + added * Cast(added.type, counts.at(index))
    updates = list(stage.updates)
    updates[number] = Update((loop,), places, (value,), condition)
    made = replace(stage, updates=tuple(updates))
    return replace(
        program,
        arguments=(counts, *program.arguments),
        stages=tuple(made if one is stage else one for one in program.stages),
    )
