"""Plans of templates that are held against every place of an image: sums over a window of products
(a correlation) or of absolute differences.

``matching.h`` computes them: a row of the image serves several rows of sums in registers, each
vector of it once for every offset across. Signed pixels are made unsigned, which adds 128 times the
sum of the template to each product's sum; that is where these begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.problem.buffers import BufferSpec
from tuner.program.bounds import Bounds
from tuner.program.expressions import Binary, Cast, Constant, Expr, Load, Variable
from tuner.program.inlining import inlined, is_copy
from tuner.program.intervals import Scope
from tuner.program.loops import Program, Stage
from tuner.program.types import I8, I32, U8, U32
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_ROWS, _MOST_ROWS = "hvx_matched", 4
_FUNCTIONS = Path(__file__).with_name("matching.h")
_BYTES, _WORD_BITS = (U8, I8), 32


@dataclass(frozen=True)
class Match(Plan):
    """The template, the input of that number, has ``height`` rows of ``width`` taps; the other
    input is the image."""

    accepted = "windows of bytes against a template"

    template: int
    height: int
    width: int
    rows: int
    is_difference: bool
    has_signed_pixels: bool
    has_signed_taps: bool

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        stage, axes = summed(inlined(program, is_copy))
        if axes != sorted(axes):
            raise NoPlanError("its sums are turned")
        scope = Bounds(program, {}).scope()
        update = stage.updates[0]
        term = term_of(stage)
        windows = {loop.index: loop.bounds for loop in update.loops if loop.bounds}

        loads = [without_casts(part) for part in term.parts]
        if not all(isinstance(load, Load) and load.type in _BYTES for load in loads):
            raise NoPlanError("it sums up no windows of bytes against a template")
        sides = {load.source: steps_of(scope, load) for load in loads if isinstance(load, Load)}
        names = [one.name for one in program.inputs]
        against = [name for name, each in sides.items() if all(e <= {*windows} for e in each)]
        if {*sides} != {*names} or len(names) != 2 or len(against) != 1:
            raise NoPlanError("it sums up no windows of two inputs")
        template, taps = names.index(against[0]), sides[against[0]]
        (pixels,) = (each for name, each in sides.items() if name != against[0])
        along = [loop for tap in taps for loop in windows if tap == {loop}]
        across = [{*each} for each in zip(stage.places, along, strict=False)]
        is_whole = len(stage.places) == len(along) == len(taps) == len(windows) == 2
        if not is_whole or pixels != across:
            raise NoPlanError("its windows are not as the template lies")
        if program.scalars:
            raise RefusedError("windows against a template have code without scalars")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        begins, ends = zip(*(windows[one] for one in along), strict=True)
        if not all(isinstance(one, Constant) for one in (*begins, *ends)):
            raise RefusedError("its window has no fixed size")
        height, width = (one.value for one in ends)
        made, lanes = specs[-1], problem.target.lanes(1)
        if any(one.value for one in begins) or not (height > 0 and 0 < width <= lanes):
            raise RefusedError(f"its window of {height} rows of {width} is not within a vector")
        if made.shape[-1] < lanes:
            raise RefusedError(f"its rows have {made.shape[-1]} sums, fewer than {lanes}")
        kinds = [one.type for one in program.inputs]
        is_difference = term.operator == "absd"
        if is_difference and kinds != [U8, U8]:
            raise RefusedError("its differences are of signed bytes")
        return cls(
            template,
            height,
            width,
            min(height, made.shape[0]),
            is_difference,
            kinds[1 - template] == I8,
            kinds[template] == I8,
        )

    @property
    def knobs(self) -> tuple[Knob, ...]:
        choices = tuple(range(1, min(self.rows, _MOST_ROWS) + 1))
        return (Knob(_ROWS, choices, "rows of sums in registers together"),)

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {_ROWS: _MOST_ROWS}

    def written(self, config: Config) -> tuple[str, str]:
        functions = [
            f"enum {{ TAPS_DOWN = {self.height}, TAPS_ACROSS = {self.width} }};",
            f"enum {{ HELD = {config.integer(_ROWS)} }};",
            f"typedef {'int8_t' if self.has_signed_taps else 'uint8_t'} TAP;",
            f"#define FLIP {'0x80808080' if self.has_signed_pixels else '0'}",
            *self._added(),
            _FUNCTIONS.read_text(),
        ]
        return "\n".join(self._loops(config.integer(_ROWS))), "\n".join(functions)

    def _added(self) -> Iterator[str]:
        """How four pixels of each lane are added with a word of the template."""
        if not self.is_difference:
            product = "vrmpybus_acc" if self.has_signed_taps else "vrmpyub_acc"
            yield f"#define ADDED(sum, pixels, word, group) HVX({product})(sum, pixels, word)"
            return
        last = (1 << 8 * ((self.width - 1) % 4 + 1)) - 1 & 0x01010101
        yield "#define ONES(group) ((group) == WORDS_ACROSS - 1 ? " + f"{last:#x} : 0x01010101)"
        yield "#define ADDED(sum, pixels, word, group) \\"
        difference = "HVX(vabsdiffub)(pixels, HVX(lvsplatw)(word))"
        yield f"    HVX(vrmpyub_acc)(sum, {difference}, ONES(group))"

    def _loops(self, rows: int) -> Iterator[str]:
        image, template = f"input{1 - self.template}", f"input{self.template}"
        bias = "-128 * sum" if self.has_signed_pixels else "0 * sum"
        wrong = ["output_extent_0 < PLACES", f"output_extent_1 < {rows}"]
        for dimension, taps in enumerate((self.width, self.height)):
            wrong.append(f"{template}_extent_{dimension} < {taps}")
            needed = f"output_extent_{dimension} + {taps - 1}"
            wrong.append(f"{image}_extent_{dimension} < {needed}")
        yield f"if ({' || '.join(wrong)}) return CONSTRAINT_VIOLATED;"
        yield "CHECKED"
        yield "uint32_t *taps = scratch(TAPS_DOWN * WORDS_ACROSS * sizeof(uint32_t));"
        yield f"const int sum = packed((const TAP *){template}, {template}_stride_1, taps);"
        yield "for (int y = 0; y < output_extent_1; y += HELD) {"
        yield "const int row = at_most(y, output_extent_1 - HELD);"
        yield "for (int x = 0; x < output_extent_0; x += PLACES) {"
        yield "const int at = at_most(x, output_extent_0 - PLACES);"
        yield f"column((const uint8_t *){image} + row * {image}_stride_1 + at, {image}_stride_1,"
        yield f"taps, {bias}, (uint32_t *)output + row * output_stride_1 + at, output_stride_1);"
        yield "}\n}"


def steps_of(scope: Scope, load: Load) -> list[set[Expr | None]]:
    """The loops that each of its indices goes on with, one by one."""
    for index in load.indices:
        scope.exact(index)
    found = [scope.terms(index) for index in load.indices]
    if any(each.get(None, 0) or {*each.values()} - {0, 1} for each in found):
        raise NoPlanError("its windows do not go on element by element")
    return [{part for part, by in each.items() if by} for each in found]


def summed(program: Program) -> tuple[Stage, list[int]]:
    """The stage that sums up what the output is, and which axis of the output each of its is."""
    stage = program.stage_of(program.outputs[0])
    value, names = stage.values[0], [one.name for one in program.stages]
    axes = [*range(len(stage.axes))]
    while isinstance(value, Load) and value.source in names:
        places = [*stage.places]
        if {*value.indices} != {*places} or len(value.indices) != len(places):
            break
        axes = [axes[places.index(one)] for one in value.indices if isinstance(one, Variable)]
        stage = program.stage_of(value.source)
        value = stage.values[0]
    is_sum = isinstance(value, Constant) and value.value == 0 and len(stage.updates) == 1
    if is_sum and stage.types in ((I32,), (U32,)):
        (update,) = stage.updates
        if update.places == stage.places and update.condition is None:
            return stage, axes
    raise NoPlanError("it sums up no windows of bytes against a template")


def term_of(stage: Stage) -> Binary:
    """What its update adds to a sum: a product, or a difference."""
    (total,) = stage.updates[0].values
    own = stage.at(*stage.places)
    if isinstance(total, Binary) and total.operator == "+" and own in total.parts:
        term = without_casts(total.left if total.right is own else total.right)
        if isinstance(term, Binary) and term.operator in ("*", "absd"):
            one, other = (
                (each.type.low, each.type.high) for each in map(without_casts, term.parts)
            )
            is_wide = term.type.bits >= _WORD_BITS or term.operator == "absd"
            if is_wide or all(term.type.holds(a * b) for a in one for b in other):
                return term
    raise NoPlanError("it sums up no products or differences")


def without_casts(value: Expr) -> Expr:
    """``value`` without casts that change nothing, as far as words that wrap can tell."""
    while isinstance(value, Cast):
        own, kind = value.operand.type, value.type
        wraps = kind.bits >= _WORD_BITS and not value.saturates
        if not wraps and not (kind.holds(own.low) and kind.holds(own.high)):
            break
        value = value.operand
    return value
