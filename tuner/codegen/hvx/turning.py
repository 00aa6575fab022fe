"""Arrays that are turned: axes that change places, in vectors and between them.

The axis that is innermost in the input becomes another one, and another one innermost. A tile of
both is some registers: the bits of an element's place are those of its lane and of its register's
number. ``vdeal`` of two registers takes the lowest bit of the lanes' number out into the registers'
and brings theirs in above the highest; as many rounds as the registers' number has bits turn the
tile. ``vshuff`` goes the other way.

Where one of both axes has few elements that lie side by side, as channels do, they are the
registers of vectors that are dense in memory; if they are no power of two, the tile is square, of
rows that overlap, and what lies beyond their elements is lost. Axes may go back, as those of
rotated images do: then rows are read or stored from the last one on.

Every round takes one permutation for each register; more of these than HVX has go through memory
once on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.problem.buffers import BufferSpec, layout_of
from tuner.problem.contract import Contract
from tuner.program.bounds import Bounds
from tuner.program.expressions import Constant, Expr, Load, Variable, rewritten
from tuner.program.inlining import inlined, is_copy
from tuner.program.loops import Program
from tuner.program.types import INDEX
from tuner.records.candidate import Problem
from tuner.space import Config, Knob

_FIRST = "hvx_first"
_AHEAD = "hvx_ahead"
_ELEMENT_BYTES = (1, 2, 4)
_MOST_TOGETHER = 4
"""Bits of the number of registers that are turned together: 16 of 32."""
_MOST_STRIDE = (1 << 16) - 1
"""Bytes, of what ``l2fetch`` fetches."""


class Axis(NamedTuple):
    """An axis of both arrays: their dimensions, counted from the innermost, and its extent, which
    may be that of several that are dense in both. ``name`` is the extent in C. One that
    ``goes_back`` has its elements in the input in the other order."""

    to: int
    of: int
    extent: int
    name: str
    goes_back: bool = False


@dataclass(frozen=True)
class Turn(Plan):
    """An array that is turned: its ``axes`` in the order of the output, innermost first; the
    input's innermost is another.

    ``few`` elements of one of these two lie side by side, in the input (``is_dealt``) or the
    output; or there are no such: ``few`` is 0.
    """

    accepted = "turned arrays"

    axes: tuple[Axis, ...]
    element_bytes: int
    lanes: int
    few: int
    is_dealt: bool
    is_aligned: bool

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        is_static = problem.contract is Contract.STATIC
        sizes = program.sizes_at({one.name: one.shape for one in specs}) if is_static else {}
        along = _permuted(program, sizes)
        made = specs[-1]
        size = made.element_bytes
        if size not in _ELEMENT_BYTES:
            raise RefusedError(f"its elements have {size} bytes")
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        lanes = problem.target.vector_bytes // size
        read, stored = (
            layout_of(one, problem.contract, problem.target).strides[::-1] for one in specs
        )
        axes: list[Axis] = []
        for to, (extent, (of, end)) in enumerate(zip(made.shape[::-1], along, strict=True)):
            if end not in (None, extent - 1):
                raise NoPlanError("its output is not an input, turned")
            last = axes[-1] if axes else None
            if (
                is_static
                and last
                and end is None
                and not last.goes_back
                and of == along[to - 1].of + 1
            ):
                next_to, next_of = stored[last.to] * last.extent, read[last.of] * last.extent
                if (next_to, next_of) == (stored[to], read[of]):
                    both = last.extent * extent
                    axes[-1] = last._replace(extent=both, name=str(both))
                    continue
            name = str(extent) if is_static else f"output_extent_{to}"
            axes.append(Axis(to, of, extent, name, end is not None))
        across, down = axes[0], next(axis for axis in axes if axis.of == 0)
        few, is_dealt = 0, down.extent < lanes
        if is_dealt or across.extent < lanes:
            narrow, other = (down, across) if is_dealt else (across, down)
            few, step = narrow.extent, read[across.of] if is_dealt else stored[down.to]
            if other.extent < lanes or few < 2:
                raise RefusedError(
                    f"of {across.extent} and {down.extent} elements along the axes that change "
                    f"places, one has to be at least {lanes}, and the other 2"
                )
            if few == 3 and size == 1:
                raise RefusedError("three bytes side by side are channels of a stencil's pixels")
            if not is_static or step != few:
                raise RefusedError("its few elements side by side are dense under static only")
        if few and (across.goes_back or down.goes_back):
            raise RefusedError("with few elements side by side, it goes back along an axis")
        steps = {read[axis.of] for axis in axes} | {stored[axis.to] for axis in axes}
        wide = {axis.extent for axis in (across, down)}
        whole = (one % lanes == 0 for one in (steps | wide) - {few, 1})
        is_aligned = is_static and all(whole)
        return cls(tuple(axes), size, lanes, few, is_dealt, is_aligned)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        most, doc = _MOST_TOGETHER, "bits of a register's number turned at once, before the rest"
        first = (
            (self.rounds,) if self.rounds <= most else tuple(range(self.rounds - most, most + 1))
        )
        ahead = (0,) if any(axis.goes_back for axis in self.axes) else (0, 1)
        return Knob(_FIRST, first, doc), Knob(_AHEAD, ahead, "tiles that are fetched ahead")

    def written(self, config: Config) -> tuple[str, str]:
        loops = _loops(self, config.integer(_AHEAD))
        return "\n".join(loops), "\n".join(_tile(self, config.integer(_FIRST)))

    @property
    def down(self) -> Axis:
        """The axis along which the input's rows go."""
        return next(axis for axis in self.axes if axis.of == 0)

    @property
    def is_padded(self) -> bool:
        """Whether rows of few elements are taken as whole vectors."""
        return self.few.bit_count() > 1

    @property
    def registers(self) -> int:
        """Those of a tile."""
        return self.few if self.few and not self.is_padded else self.lanes

    @property
    def rounds(self) -> int:
        """Bits of their number."""
        return self.registers.bit_length() - 1


class _Along(NamedTuple):
    """The dimension of the input, counted from the innermost, along which one of the output goes;
    from the ``last`` element back, if it does that."""

    of: int
    last: int | None


def _permuted(program: Program, sizes: Mapping[str, int]) -> tuple[_Along, ...]:
    """That of each dimension of the output, innermost first."""
    program = inlined(program, is_copy)
    if len(program.stages) != 1 or len(program.inputs) != 1 or program.scalars:
        raise NoPlanError("it is not one array made of another")
    (stage,) = program.stages
    value = stage.values[0]
    if len(stage.arrays) > 1 or stage.updates or not isinstance(value, Load):
        raise NoPlanError("its output is not an input, turned")
    found: dict[Expr, _Along] = {}
    scope = Bounds(program, sizes).scope()

    def known(node: Expr) -> Expr:
        if isinstance(node, Variable) and node.name in sizes:
            return Constant(sizes[node.name], INDEX)
        return node

    for number, own in enumerate(reversed(value.indices)):
        index = rewritten(own, known)
        scope.exact(index)
        terms = scope.terms(index)
        offset, (axis, sign) = terms.pop(None, 0), next(iter(terms.items()), (None, 0))
        if len(terms) != 1 or axis not in stage.places or (sign, offset) != (1, 0) != (-sign, 0):
            raise NoPlanError("its output is not an input, turned")
        found[axis] = _Along(number, offset if sign < 0 else None)
    if len(found) != len(stage.axes) or len(found) != len(value.indices):
        raise NoPlanError("its output is not an input, turned")
    of = tuple(found[axis] for axis in reversed(stage.places))
    if of[0].of == 0:
        raise NoPlanError("its rows stay rows")
    return of


def _tile(turn: Turn, first: int) -> Iterator[str]:
    kind = "V" if turn.is_aligned else "VU"
    yield (
        "static __attribute__((noinline)) void tile(const uint8_t *restrict in, int in_row, "
        "uint8_t *restrict out, int out_row, V *restrict between, uint8_t *restrict packed) {"
    )
    few, row = turn.few, turn.few * turn.element_bytes
    whole = f"for (int n = 0; n < {few}; ++n)"
    read, stored = f"*(const {kind} *)(in + {{0}} * in_row)", f"*({kind} *)(out + {{0}} * out_row)"
    if turn.is_padded and turn.is_dealt:
        yield f"{whole} ((V *)packed)[n] = ((const VU *)in)[n];"
        read, stored = f"*(const VU *)(packed + {{0}} * {row})", f"if ({{0}} < {few}) {stored}"
    elif turn.is_padded:
        yield "const V none = {0};"
        read, stored = f"{{0}} < {few} ? {read} : none", "between[{0}]"
    bits = [range(first), range(first, turn.rounds)]
    phases = [one for one in bits if one]
    if not (turn.is_dealt or turn.is_padded):
        phases = [one[::-1] for one in phases[::-1]]
    for number, phase in enumerate(phases):
        low, high = min(phase), max(phase) + 1
        yield f"for (int high = 0; high < {1 << turn.rounds - high}; ++high)"
        yield f"for (int low = 0; low < {1 << low}; ++low) {{"
        count = 1 << high - low
        places = [f"(high << {high} | {n} << {low} | low)" for n in range(count)]
        source = read if number == 0 else "between[{0}]"
        yield from (f"V v{n} = {source.format(place)};" for n, place in enumerate(places))
        for bit in phase:
            yield from _round(turn, count, 1 << bit - low)
        target = stored if number == len(phases) - 1 else "between[{0}]"
        yield from (f"{target.format(place)} = v{n};" for n, place in enumerate(places))
        yield "}"
    if turn.is_padded and not turn.is_dealt:
        # From the first on: each is stored over what is lost of the one before.
        yield f"for (int n = 0; n < {turn.lanes}; ++n) *(VU *)(packed + n * {row}) = between[n];"
        yield f"{whole} ((VU *)out)[n] = ((V *)packed)[n];"
    yield "}"


def _round(turn: Turn, count: int, apart: int) -> Iterator[str]:
    """Of pairs of registers whose numbers differ in one bit."""
    operation = "vdealvdd" if turn.is_dealt or turn.is_padded else "vshuffvdd"
    for n in (n for n in range(count) if not n & apart):
        pair = f"HVX({operation})(v{n + apart}, v{n}, -{turn.element_bytes})"
        yield f"{{ const W w = {pair}; v{n} = HVX(lo)(w); v{n + apart} = HVX(hi)(w); }}"


def _loops(turn: Turn, ahead: int) -> Iterator[str]:
    size, lanes, few, across, down = (
        turn.element_bytes,
        turn.lanes,
        turn.few,
        turn.axes[0],
        turn.down,
    )
    tiled = {across: "x", down: "y"}
    if few:
        del tiled[down if turn.is_dealt else across]
    for axis in tiled:
        yield f"if ({axis.name} < {lanes}) return CONSTRAINT_VIOLATED;"
    for axis in turn.axes:
        if not axis.name.isdigit():
            yield f"if ({axis.name} != input0_extent_{axis.of}) return CONSTRAINT_VIOLATED;"
    yield "CHECKED"
    needs = turn.rounds > _MOST_TOGETHER or turn.is_padded
    between = f"scratch({turn.registers * lanes * size})" if needs else "0"
    packed = f"scratch({(few + 1) * lanes * size})" if turn.is_padded else "0"
    yield f"V *between = (V *){between};"
    yield f"uint8_t *packed = (uint8_t *){packed};"
    others = {axis: f"i{axis.to}" for axis in turn.axes[::-1] if axis not in (across, down)}
    for axis, name in others.items():
        yield f"for (int {name} = 0; {name} < {axis.name}; ++{name})"
    for axis, name in reversed(tiled.items()):
        yield f"for (int {name}_ = 0; {name}_ < {axis.name}; {name}_ += {lanes})"
    yield "{"
    for axis, name in tiled.items():
        last = f"{axis.name} - {lanes}"
        yield f"const int {name} = {name}_ < {last} ? {name}_ : {last};"

    def at(buffer: str, dimensions: Iterable[tuple[int, str]]) -> str:
        terms = [f"{n} * {buffer}_stride_{d}" if d else n for d, n in dimensions]
        return f"({' + '.join([buffer, *terms])})"

    places = {**others, **tiled}
    # What goes back does so in the input; but along its rows in the output, as a row is a vector.
    back = {
        axis: f"({axis.name} - 1 - {name})" if axis.goes_back else name
        for axis, name in places.items()
    }
    read = at("input0", [(one.of, (places if one is down else back)[one]) for one in places])
    stored = at("output", [(one.to, (back if one is down else places)[one]) for one in places])
    dense = str(lanes * size)
    in_row = dense if few and turn.is_dealt else f"{size} * input0_stride_{across.of}"
    out_row = dense if few and not turn.is_dealt else f"{size} * output_stride_{down.to}"
    in_row = f"-{in_row}" if across.goes_back else in_row
    out_row = f"-{out_row}" if down.goes_back else out_row
    if ahead and not any(axis.goes_back for axis in turn.axes):
        axis, name = next(iter(tiled.items()))
        step = f"{lanes} * input0_stride_{axis.of}" if axis.of else f"{lanes}"
        yield (
            f"if ({in_row} <= {_MOST_STRIDE} && {name} + {2 * lanes} <= {axis.name}) "
            f"__builtin_HEXAGON_Y5_l2fetch((void *)({read} + {step}), "
            f"(uint64_t)({in_row}) << 32 | {dense}u << 16 | {few or lanes}u);"
        )
    arguments = f"(const uint8_t *){read}, {in_row}, (uint8_t *){stored}, {out_row}"
    yield f"tile({arguments}, between, packed);"
    yield "}"
