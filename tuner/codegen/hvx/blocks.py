"""Plans of blocks that are compared with another image at many shifts, as a search for motion does:
sums over each block of absolute differences, or of products.

``blocks.h`` computes them: a vector is blocks side by side, and a row of them is loaded once for
many shifts, whose sums stay in registers until the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from tuner.codegen import clang
from tuner.codegen.hvx.matching import summed, term_of, without_casts
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.problem.buffers import BufferSpec
from tuner.problem.contract import Contract
from tuner.program import Program
from tuner.program.bounds import bounded
from tuner.program.expressions import Constant, Load, Variable
from tuner.program.inlining import inlined, is_copy
from tuner.program.types import I8, U8
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_SHIFTS, _HELD, _PARTS = "hvx_shifts", 20, 6
"""The most sums that are held in registers, and parts in which all shifts may be."""
_UNROLLED, _ROWS = "hvx_unrolled", (1, 2, 4)
_FUNCTIONS = Path(__file__).with_name("blocks.h")
_PRODUCTS = {U8: "vrmpyubv_acc", I8: "vrmpybv_acc"}
_BLOCKS, _LOADS = (4, 8, 16, 32), 2
_MOST_EXTENT = 1 << 14
"""Of sizes that a caller chooses, up to which indices are looked at."""
_NONE = "it is no sum over blocks at shifts"


class _Index(NamedTuple):
    """An index of a load: along a ``window``, which ``starts`` at multiples of axes of the output,
    and an offset."""

    window: Variable
    starts: Mapping[Variable, int]
    offset: int


class _Axis(NamedTuple):
    """Of the output: its extent in the problem's shape, and its dimension, counted from the
    innermost."""

    own: int
    dimension: int

    @property
    def extent(self) -> str:
        """In C."""
        return f"output_extent_{self.dimension}"

    @property
    def stride(self) -> str:
        """In C."""
        return f"output_stride_{self.dimension}" if self.dimension else "1"


@dataclass(frozen=True)
class _Side:
    """An input: its number, and where in it the first block of shift 0 begins."""

    number: int
    row: int
    column: int


@dataclass(frozen=True)
class Blocks(Plan):
    """Blocks of ``height`` rows of ``width`` pixels, each ``step`` rows below the last, by the axes
    of the output; without a name in :data:`_PRODUCTS` what is ``added`` are differences."""

    accepted = "blocks of bytes against an image at every shift"

    own: _Side
    other: _Side
    height: int
    width: int
    step: int
    down: _Axis | None
    across: _Axis
    shift_down: _Axis | None
    shift_across: _Axis
    added: str
    is_static: bool

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if program.scalars:
            raise NoPlanError(f"{_NONE} without scalars")
        is_static = problem.contract is Contract.STATIC
        made = inlined(program, is_copy)
        stage, order = summed(made)
        update, term = stage.updates[0], term_of(stage)
        sizes = program.sizes_at({one.name: one.shape for one in specs})
        open_sizes = {name: max(size, _MOST_EXTENT) for name, size in sizes.items()}
        bounds = bounded(made, sizes) if is_static else bounded(made, {}, open_sizes)
        scope = bounds.of_update(stage, update)
        if scope is None:
            raise NoPlanError(_NONE)
        windows = {loop.index: loop.bounds for loop in update.loops if loop.bounds}

        def indices(load: Load) -> list[_Index]:
            found = []
            for index in load.indices:
                scope.exact(index)
                terms = scope.terms(index)
                offset = terms.pop(None, 0)
                along = [one for one in windows if terms.pop(one, 0) == 1]
                starts = {one: terms.pop(one) for one in stage.places if one in terms}
                if len(along) != 1 or terms:
                    raise NoPlanError(_NONE)
                found.append(_Index(along[0], starts, offset))
            return found

        loads = [one for one in map(without_casts, term.parts) if isinstance(one, Load)]
        kinds = {one.type for one in loads}
        is_of_two = len(loads) == _LOADS and {len(one.indices) for one in loads} == {2}
        if not is_of_two or len(kinds) != 1 or not kinds <= {*_PRODUCTS}:
            raise NoPlanError("it is no sum over blocks of bytes of one type")
        (own, own_at), (other, other_at) = sorted(
            ((one, indices(one)) for one in loads), key=lambda one: len(one[1][-1].starts)
        )
        axes: list[Variable | None] = []
        for one, there in zip(own_at, other_at, strict=True):
            starts = [*one.starts, None][0]
            shifts = [*(axis for axis in there.starts if axis != starts), None]
            is_shift = shifts[0] is None or there.starts[shifts[0]] == 1
            is_same = len(one.starts) <= 1 and one.starts.items() <= there.starts.items()
            if not (one.window is there.window and is_same and is_shift and len(shifts) <= _LOADS):
                raise NoPlanError(_NONE)
            axes += [starts, shifts[0]]
        down, shift_down, across, shift_across = axes
        given = [one for one in axes if one is not None]
        has_all = {*given} == {*stage.places} and len(given) == len(stage.places)
        if across is None or shift_across is None or not has_all:
            raise NoPlanError(_NONE)
        if any(spec.loose for spec in specs) or any(specs[-1].mins):
            raise RefusedError("its buffers are loose, or its output does not begin at 0")
        ends = [end for one in own_at for end in windows[one.window]]
        top, bottom, left, right = (one.value if isinstance(one, Constant) else -1 for one in ends)
        are_beside = right in _BLOCKS and own_at[1].starts[across] == right
        if (top, left) != (0, 0) or bottom < 1 or not are_beside:
            raise RefusedError(f"its blocks are not {_BLOCKS} pixels wide, side by side")
        shape = specs[-1].shape
        found: dict[Variable | None, _Axis] = {
            one: _Axis(shape[axis], len(shape) - 1 - axis)
            for one, axis in zip(stage.places, order, strict=True)
        }
        if found[across].own * right < problem.target.lanes(1):
            raise RefusedError(f"its blocks are {found[across].own} in a row, no vector")
        inputs = [one.name for one in program.inputs]
        if {own.source, other.source} != {*inputs}:
            raise NoPlanError("it has inputs beside those of its blocks")

        def side(load: Load, at: Sequence[_Index]) -> _Side:
            number = inputs.index(load.source)
            least = specs[number].mins or (0, 0)
            return _Side(number, at[0].offset - least[0], at[1].offset - least[1])

        is_difference = term.operator == "absd"
        if is_difference and kinds != {U8}:
            raise RefusedError("its differences are of signed bytes")
        product = "" if is_difference else _PRODUCTS[next(iter(kinds))]
        return cls(
            own=side(own, own_at),
            other=side(other, other_at),
            height=bottom,
            width=right,
            step=own_at[0].starts.get(down, 0) if down else 0,
            down=found.get(down),
            across=found[across],
            shift_down=found.get(shift_down),
            shift_across=found[shift_across],
            added=product,
            is_static=is_static,
        )

    @property
    def knobs(self) -> tuple[Knob, ...]:
        shifts = self.shift_across.own
        each = {-(-shifts // parts) for parts in range(1, _PARTS + shifts // _HELD)}
        choices = tuple(sorted(one for one in each if one <= _HELD))
        rows = tuple(n for n in _ROWS if self.height % n == 0)
        return (
            Knob(_SHIFTS, choices, "shifts summed up together"),
            Knob(_UNROLLED, rows, "rows of a block in one iteration"),
            clang.DEEPER,
        )

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        shifts, *_ = self.knobs
        return {_SHIFTS: shifts.choices[-1], _UNROLLED: 2}

    def written(self, config: Config) -> tuple[str, str]:
        difference = "HVX(vrmpyub_acc)(sum, HVX(vabsdiffub)(own, other), 0x01010101)"
        added = f"HVX({self.added})(sum, own, other)" if self.added else difference
        functions = [
            f"enum {{ BLOCK_DOWN = {self.height}, BLOCK_ACROSS = {self.width} }};",
            f"enum {{ SHIFTS = {self.shift_across.own if self.is_static else 0} }};",
            f"#define ROWS_UNROLLED {config.integer(_UNROLLED)}",
            f"enum {{ TOGETHER = {config.integer(_SHIFTS)} }};",
            f"#define ADDED(sum, own, other) {added}",
            _FUNCTIONS.read_text(),
        ]
        return "\n".join(self._loops(config.integer(_SHIFTS))), "\n".join(functions)

    def _loops(self, together: int) -> Iterator[str]:
        across, shifts = self.across, self.shift_across.extent
        (down, down_step), (shift, shift_step) = (
            (one.extent, one.stride) if one else ("1", "0") for one in (self.down, self.shift_down)
        )
        yield f"const int width = {across.extent} * {self.width};"
        wrong = ["width < VECTOR_BYTES", f"{shifts} < {together}"]
        for side, beyond in ((self.own, ("1", "1")), (self.other, (shifts, shift))):
            name, rows = f"input{side.number}_extent", f"({down} - 1) * {self.step} + {self.height}"
            wrong.append(f"{name}_0 < {side.column} + width + {beyond[0]} - 1")
            wrong.append(f"{name}_1 < {side.row} + {rows} + {beyond[1]} - 1")
        yield f"if ({' || '.join(wrong)}) return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        yield f"for (int block = 0; block < {down}; ++block)"
        yield "for (int x = 0; x < width; x += VECTOR_BYTES)"
        yield f"for (int shift = 0; shift < {shift}; ++shift) {{"
        yield "const int at = at_most(x, width - VECTOR_BYTES);"
        for name, side, moved in (("own", self.own, ""), ("other", self.other, " + shift")):
            row = f"(block * {self.step} + {side.row}{moved})"
            place = f"{row} * input{side.number}_stride_1 + {side.column} + at"
            yield f"const uint8_t *{name} = (const uint8_t *)input{side.number} + {place};"
        place = f"block * {down_step} + shift * {shift_step}"
        place += f" + at / {self.width} * {across.stride}"
        strides = [f"input{side.number}_stride_1" for side in (self.own, self.other)]
        yield f"uint32_t *out = (uint32_t *)output + {place};"
        steps = f"{shifts}, {across.stride}, {self.shift_across.stride}"
        yield f"blocks(own, {strides[0]}, other, {strides[1]}, out, {steps});"
        yield "}"
