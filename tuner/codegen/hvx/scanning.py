"""Plans of running sums: of the bytes of rows, of columns, or of both (an integral image).

Along a row a vector's sums are a tree in registers (``scanning.h``), and what comes before it is
carried over; down columns rows are added to the one above. Rows are summed up together, so that one
goes on while another waits for its permutations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program.bounds import Bounds
from tuner.program.expressions import Cast, Constant, Expr, Load, rewritten
from tuner.program.inlining import inlined, is_copy
from tuner.program.loops import Program, Stage, Update
from tuner.program.types import I32, U8, U32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob

_ROWS = "hvx_scanned"
_FUNCTIONS = Path(__file__).with_name("scanning.h")


@dataclass(frozen=True)
class Scan(Plan):
    """Sums along the dimensions ``along`` of ``rank``, counted from the innermost."""

    accepted = "running sums of bytes in words"

    along: tuple[int, ...]
    rank: int
    lanes: int
    is_aligned: bool

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static = problem.contract is Contract.STATIC
        sizes = program.sizes_at({one.name: one.shape for one in specs}) if is_static else {}
        ends = _chain(inlined(program, is_copy))
        made, lanes = specs[-1], problem.target.lanes(1)
        if len(specs) != 2 or program.scalars or len(ends) > len({n for n, _ in ends}):
            raise RefusedError("beside running sums it has scalars, inputs, or sums of sums")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        if made.shape[-1] < lanes:
            raise RefusedError(f"its rows have {made.shape[-1]} pixels, fewer than {lanes}")
        scope, axes = Bounds(program, sizes).scope(), program.stage_of(made.name).axes
        for axis, end in ends:
            is_whole = is_static and scope.of(end) == (made.shape[axis], made.shape[axis])
            if not is_whole and end not in axes[axis].bounds:
                raise RefusedError("its running sums end where its output does under static only")
        rows = [layout_of(one, problem.contract, problem.target).strides[0] for one in specs]
        is_aligned = is_static and not any(n % lanes for n in (*rows, made.shape[-1]) if n > 1)
        is_aligned |= problem.contract is Contract.EXTENT
        along = tuple(len(made.shape) - 1 - axis for axis, _ in ends)
        return cls(along, len(made.shape), lanes, is_aligned)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return (Knob(_ROWS, (1, 2, 4) if self.rank > 1 else (1,), "rows summed up together"),)

    def written(self, config: Config) -> tuple[str, str]:
        rows, last = config.integer(_ROWS), self.lanes - 4
        # vdelta takes bits of a lane's number from the highest on: all but those within a word.
        to_last = ",".join(str(n & last ^ last) for n in range(self.lanes))
        functions = [
            f"enum {{ ACROSS = {int(0 in self.along)}, DOWN = {int(1 in self.along)} }};",
            f"typedef {'V' if self.is_aligned else 'VU'} P;",
            _FUNCTIONS.read_text().replace("{LANES_OF_LAST}", f"{{{to_last}}}"),
            *(f"ROWS(rows_{count}, {count})" for count in {rows, 1}),
        ]
        return "\n".join(self._loops(rows)), "\n".join(functions)

    def _loops(self, rows: int) -> Iterator[str]:
        wrong = [f"input0_extent_{d} < output_extent_{d}" for d in range(self.rank)]
        yield f"if ({' || '.join([*wrong, f'output_extent_0 < {self.lanes}'])})"
        yield "return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        is_image = self.rank > 1
        strides = ("input0_stride_1", "output_stride_1") if is_image else ("0", "0")
        yield f"const int width = output_extent_0, height = {'output_extent_1' if is_image else 1};"
        yield "uint32_t *none = scratch((width + PIXELS) * sizeof(uint32_t));"
        yield "if (DOWN) for (int x = 0; x < width; x += PIXELS / PARTS) *(V *)(none + x) = (V){0};"
        yield "const uint32_t *above = none;"
        yield "int y = 0;"
        for count in dict.fromkeys((rows, 1)):
            yield f"for (; y + {count} <= height; y += {count}) {{"
            yield f"uint32_t *out = (uint32_t *)output + y * {strides[1]};"
            row = f"input0 + y * {strides[0]}, {strides[0]}"
            yield f"rows_{count}({row}, above, out, {strides[1]}, width);"
            yield f"above = out + {count - 1} * {strides[1]};"
            yield "}"


def _chain(program: Program) -> list[tuple[int, Expr]]:
    """The axes along which bytes are summed up, one after the other, with their ends."""
    inputs = {one.name: one for one in program.inputs}
    stage, ends = program.stage_of(program.outputs[0]), list[tuple[int, Expr]]()
    while True:
        if len(stage.arrays) > 1 or len(stage.axes) > 2 or stage.types[0] not in (U32, I32):
            raise NoPlanError("it is no running sum of bytes in words")
        ends += [_summed(stage, update) for update in stage.updates]
        (value,) = stage.values
        load = value.operand if isinstance(value, Cast) else value
        if not isinstance(load, Load) or load.indices != stage.places or not ends:
            raise NoPlanError("it is no running sum of bytes in words")
        if load.source in inputs and load.type == U8:
            return ends
        if load.source in inputs or load is not value:
            raise NoPlanError("it is no running sum of bytes in words")
        stage = program.stage_of(load.source)


def _summed(stage: Stage, update: Update) -> tuple[int, Expr]:
    """The axis of which ``update`` makes running sums, and where they end."""
    bounded = [loop for loop in update.loops if loop.bounds]
    moved = [n for n, axis in enumerate(stage.places) if update.places[n] is not axis]
    if len(bounded) == len(moved) == 1 and update.condition is None:
        (loop,), (axis,) = bounded, moved
        begin, end = loop.bounds
        index, own = loop.index, stage.places[axis]

        def there(root: Expr) -> Expr:
            return rewritten(root, lambda node: index if node is own else node)

        def at(place: Expr) -> Expr:
            return stage.at(*(place if one is own else one for one in stage.places))

        sums = [at(index - 1) + one for one in (at(index), there(stage.values[0]))]
        sums += [total.of(total.parts[::-1]) for total in sums]
        is_first = isinstance(begin, Constant) and begin.value == 1
        if is_first and update.places[axis] is index and update.values[0] in sums:
            return axis, end
    raise NoPlanError("it is no running sum of bytes in words")
