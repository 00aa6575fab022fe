"""What becomes of sums in words by numbers that a call brings: they are scaled, moved, brought
between ends, and narrowed.

A product of words, rounded to its upper half, is two instructions (``vmpye`` and
``vmpyo:<<1:rnd:sat:shift``, V66 HVX Programmer's Reference Manual, 80-N2040-44). Words saturate on
the way, which makes no difference to what narrowing saturates anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tuner.codegen.hvx.plan import NoPlanError
from tuner.program.expressions import Binary, Cast, Constant, Expr, Load, Variable
from tuner.program.intervals import Interval, Patience, Scope, of_type
from tuner.program.loops import Program
from tuner.program.types import I8, I16, I32, U8, U16, Type

_SCALE_BITS = 31
_MOST_ADDED = 1 << 16
_NARROWINGS = {I16: "vpackwh_sat", U16: "vpackwuh_sat", I8: "vpackhb_sat", U8: "vpackhub_sat"}
_OF_ENDS = {
    (kind, by): f"v{by}{'u' * (not kind.is_signed)}{'b' if kind.bits == I8.bits else 'h'}"
    for kind in _NARROWINGS
    for by in ("min", "max")
}


class Number(NamedTuple):
    """C of a number that is the same for all sums, or else (``is_each``) the input of that number,
    which has one for each column; and its ends."""

    text: str
    ends: Interval
    is_each: bool = False


class Step(NamedTuple):
    """``scale``, ``+``, ``min`` or ``max`` by a number, or ``clamp`` between its ends."""

    operation: str
    by: Number


class Reading:
    """Expressions of a program around a sum; ``column`` is the index of its column."""

    def __init__(self, program: Program, column: Variable) -> None:
        self._names = [one.name for one in program.inputs]
        self._column = column
        self._scope = Scope({}, lambda load: of_type(load.type), Patience())

    def number(self, value: Expr) -> Number | None:
        """``value`` if it is one for all sums, or for a column."""
        ends = self._scope.exact(value)
        if isinstance(value, Cast) and of_type(value.type).covers(self._scope.exact(value.operand)):
            return self.number(value.operand)
        if ends.low == ends.high:
            return Number(str(ends.low), ends)
        if isinstance(value, Load) and value.source in self._names and len(value.indices) == 1:
            (index,) = value.indices
            name = f"input{self._names.index(value.source)}"
            if index is self._column:
                return Number(name, ends, True)
            if isinstance(index, Constant):
                return Number(f"{name}[{index.value}]", ends)
        return None

    def offset(self, value: Expr) -> tuple[Expr, Number | None]:
        """An element, and what is taken away from it."""
        if isinstance(value, Binary) and value.operator == "-":
            by = self.number(value.right)
            if by is None or by.is_each:
                raise NoPlanError("it takes away from elements what differs between them")
            return value.left, by
        return value, None

    def steps(self, value: Expr) -> tuple[Load, list[Step]]:
        """The element that ``value`` is of, and what becomes of it."""
        found = list[Step]()
        while not isinstance(value, Load):
            value, step = self._peeled(value)
            found += [step] if step else []
        return value, found[::-1]

    def _peeled(self, value: Expr) -> tuple[Expr, Step | None]:
        scope = self._scope
        if isinstance(value, Cast):
            ends = of_type(value.type)
            if ends.covers(scope.exact(value.operand)):
                return value.operand, None
            if value.saturates:
                return value.operand, Step("clamp", Number("", ends))
        elif isinstance(value, Binary) and value.operator in ("min", "max", "+"):
            fits = value.operator != "+" or of_type(value.type).covers(scope.exact(value))
            for inner, other in (value.parts, value.parts[::-1]):
                by = self.number(other)
                if fits and by is not None and not by.is_each:
                    return inner, Step(value.operator, by)
        elif isinstance(value, Binary) and value.operator == ">>":
            return self._scaled(value)
        raise NoPlanError("its sums are ended in a way that products have no code for")

    def _scaled(self, value: Binary) -> tuple[Expr, Step]:
        bits, total = self._scope.exact(value.right), value.left
        if (bits.low, bits.high) == (_SCALE_BITS, _SCALE_BITS) and isinstance(total, Binary):
            half = 1 << (_SCALE_BITS - 1)
            for product, rounding in (total.parts, total.parts[::-1]):
                is_half = self._scope.exact(rounding) == (half, half)
                if total.operator == "+" and is_half and isinstance(product, Binary):
                    fits = of_type(total.type).covers(self._scope.exact(total))
                    for inner, other in (product.parts, product.parts[::-1]):
                        by, words = self.number(other), of_type(I32)
                        fits = fits and words.covers(self._scope.exact(inner))
                        if fits and by and words.covers(by.ends) and product.operator == "*":
                            return inner, Step("scale", by)
        raise NoPlanError(f"it scales sums otherwise than by 2**-{_SCALE_BITS}")


@dataclass(frozen=True)
class Ending:
    """All that becomes of sums of a ``kind``: ``steps`` in words, and ``ends`` of narrow ones."""

    kind: Type
    steps: tuple[Step, ...] = ()
    ends: tuple[Step, ...] = ()

    @classmethod
    def of(cls, steps: Sequence[Step], kind: Type) -> Ending:
        """That of values of a ``kind``. ``NoPlanError`` says why there is none."""
        if not steps and kind.bits == I32.bits:
            return cls(kind)
        clamps = [n for n, one in enumerate(steps) if one.operation == "clamp"]
        own = of_type(kind)
        if kind not in _NARROWINGS or not clamps or steps[clamps[-1]].by.ends != own:
            raise NoPlanError("its sums are not saturated as they are narrowed")
        last = clamps[-1]
        before, after = list(steps[:last]), steps[last + 1 :]
        if any(n.operation not in ("min", "max") or not own.covers(n.by.ends) for n in after):
            raise NoPlanError("it computes with narrowed sums")
        if len({one.by.text for one in steps if one.by.is_each}) > 1:
            raise NoPlanError("it scales columns twice")
        added = [one.by.ends for one in before if one.operation == "+"]
        reach = sum(max(-one.low, one.high) for one in added)
        if reach > _MOST_ADDED:
            raise NoPlanError("it adds numbers of more than 16 bits to scaled sums")
        # An end makes no difference from which nothing added comes back between the last ones.
        kept = []
        for n, one in enumerate(before):
            more = [other.by.ends for other in before[n + 1 :] if other.operation == "+"]
            low = one.by.ends.low + sum(other.high for other in more)
            high = one.by.ends.high + sum(other.low for other in more)
            others = {other.operation for other in before[n + 1 :]}
            is_far = others <= {"+", "clamp"} and low <= own.low and own.high <= high
            kept += [] if one.operation == "clamp" and is_far else [one]
        return cls(kind, tuple(kept), tuple(after))

    @property
    def scale(self) -> Number | None:
        """What sums are scaled by, if each column has its own."""
        found = [one.by for one in self.steps if one.operation == "scale" and one.by.is_each]
        return found[0] if found else None

    @property
    def numbers(self) -> Mapping[str, int]:
        """C of the numbers that are needed, with the place of each."""
        every = [one.by.text for one in (*self.steps, *self.ends) if one.operation != "clamp"]
        texts = dict.fromkeys(
            text for text in every if self.scale is None or text != self.scale.text
        )
        return {text: n for n, text in enumerate(texts)}

    def functions(self) -> Iterator[str]:
        """C of what becomes of the words of columns from ``at`` on, and of those of as many
        vectors as one of the output has."""
        yield "INLINE V ended(V sum, const struct product *p, int at) {"
        for operation, by in self.steps:
            number = f"HVX(lvsplatw)(p->numbers[{self.numbers.get(by.text)}])"
            if operation == "scale":
                number = "*(const VU *)(p->scales + at)" if by.is_each else number
                yield f"{{ const V by = {number};"
                yield "sum = HVX(vmpyowh_rnd_sacc)(HVX(vmpyewuh)(sum, by), sum, by); }"
            elif operation == "+":
                yield f"sum = HVX(vaddwsat)(sum, {number});"
            elif operation == "clamp":
                low, high = (f"HVX(lvsplatw)({end})" for end in by.ends)
                yield f"sum = HVX(vminw)(HVX(vmaxw)(sum, {low}), {high});"
            else:
                yield f"sum = HVX(v{operation}w)(sum, {number});"
        yield "return sum;\n}"
        if self.kind.bits == I32.bits:
            return
        of_halves = _NARROWINGS[I16 if self.kind.bits == I8.bits else self.kind]
        yield "INLINE V narrowed(const V *sums, const struct product *p) {"
        if self.kind.bits == I8.bits:
            yield f"const V low = HVX({of_halves})(sums[1], sums[0]);"
            yield f"const V high = HVX({of_halves})(sums[3], sums[2]);"
            yield f"V made = HVX({_NARROWINGS[self.kind]})(high, low);"
        else:
            yield f"V made = HVX({of_halves})(sums[1], sums[0]);"
        splat = "lvsplatb" if self.kind.bits == I8.bits else "lvsplath"
        for operation, by in self.ends:
            number = f"HVX({splat})(p->numbers[{self.numbers[by.text]}])"
            yield f"made = HVX({_OF_ENDS[self.kind, operation]})(made, {number});"
        yield "return made;\n}"
