"""Expressions of the elements at one place, as HVX operations on a block of places.

A block has as many elements as a vector has of the narrowest type that is read or stored. A value
is computed in the least width that holds it, whatever its type: intervals say what that is, and
where no more than the low bits count, in the width of those. So a sum of bytes that is halved is an
average, and one that is brought between 0 and 255 saturates, however it is spelled.

Elements of twice the width are two vectors, those of even and of odd ones, as HVX widens and
narrows: order costs a permutation where such are read or stored, and nothing between. Quotients are
products by reciprocals; those by bytes of an input take these from tables, and are corrected.

Source: Hexagon V66 HVX Programmer's Reference Manual, 80-N2040-44, for each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.codegen.hvx.plan import RefusedError
from tuner.program.c_operators import Operators, Text, chosen, constant
from tuner.program.expressions import (
    COMPARISONS,
    Binary,
    BinaryOperator,
    Cast,
    Constant,
    Expr,
    Load,
    Select,
    Unary,
    Variable,
    ordered,
)
from tuner.program.intervals import Interval, Scope, of_type
from tuner.program.types import BOOL, I8, I16, I32, U8, U16, U32, Type

_TYPES = (U8, I8, U16, I16, U32, I32)
_LETTERS = {8: "b", 16: "h", 32: "w"}
_RING: tuple[BinaryOperator, ...] = ("+", "-", "*", "&", "|", "^")
"""Of the low bits of their operands, their own follow."""
_BITWISE = {"&": "vand", "|": "vor", "^": "vxor"}
_NEGATIVE = Interval(-1, 0)
_HIGH_PRODUCT = 31
"""The shift of a product of words that is one of the multiplications."""
_NEAR, _STEP = 64, 8
"""Bytes up to which each has its reciprocal, and how many share one beyond."""
_LOOKED_UP = 32
"""Entries at once."""


@dataclass
class Elements:
    """The operations of a block of ``lanes`` elements, where ``scope`` is known, as ``lines`` of C.

    ``place`` gives the address of a block of an input, or that of the element that is the same for
    all of it, and whether it is one. ``PART(address, n)`` is vector n of a block.
    """

    scope: Scope
    lanes: int
    vector_bytes: int
    place: Callable[[Load], tuple[str, bool]]
    scalars: Mapping[str, str] = field(default_factory=dict)
    """The names of scalars in C, by their own."""
    operators: Operators = field(default_factory=Operators)
    """Of what is computed once, of scalars alone."""
    lines: list[str] = field(default_factory=list)
    tables: dict[str, Sequence[int]] = field(default_factory=dict)
    """Of bytes, by name, that the lines read."""
    _known: dict[tuple[Expr, int], list[str]] = field(default_factory=dict)

    def stored(self, value: Expr) -> list[str]:
        """The vectors of ``value``, as they lie in memory."""
        return self._in_order(self._at(value, value.type.bits), value.type.bits)

    # What is known of values

    @property
    def _base(self) -> int:
        """Bits of the narrowest elements."""
        return 8 * self.vector_bytes // self.lanes

    def _lean(self, value: Expr) -> Expr:
        """``value`` without casts that do not change it."""
        while isinstance(value, Cast) and value.operand.type != BOOL:
            if not of_type(value.type).covers(self.scope.of(value.operand)):
                break
            value = value.operand
        return value

    def _fit(self, *intervals: Interval) -> Type | None:
        """The least type that holds them, at least that of a block's narrowest elements."""
        fits = (
            kind
            for kind in _TYPES
            if kind.bits >= self._base and all(map(of_type(kind).covers, intervals))
        )
        return next(fits, None)

    def _type(self, *values: Expr) -> Type:
        found = self._fit(*map(self.scope.of, values))
        if found is None:
            raise RefusedError("words do not hold its values")
        return found

    def _terms(self, value: Expr) -> dict[Expr | None, int]:
        """``value`` as a sum of multiples."""
        if not of_type(value.type).covers(self.scope.exact(value)):
            return {value: 1}
        return {one and self._lean(one): n for one, n in self.scope.terms(value).items()}

    def _number(self, value: Expr) -> int | None:
        own = self.scope.of(value)
        return own.low if own.low == own.high else None

    # Vectors

    def _made(self, text: str, kind: str = "V") -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")
        return name

    def _each(self, operation: str, *given: Sequence[str], by: Iterable[str] = ()) -> list[str]:
        """``operation`` of vectors, one by one, and ``by`` scalars."""
        rows = (", ".join([*one, *by]) for one in zip(*given, strict=True))
        return [self._made(f"HVX({operation})({row})") for row in rows]

    def _pairs(self, operation: str, *given: Sequence[str], by: Iterable[str] = ()) -> list[str]:
        """``operation`` of vectors, each of which gives two."""
        rows = (", ".join([*one, *by]) for one in zip(*given, strict=True))
        made = [self._made(f"HVX({operation})({row})", "W") for row in rows]
        return [f"HVX({half})({pair})" for pair in made for half in ("lo", "hi")]

    def _joined(self, operation: str, given: Sequence[str], *by: str) -> list[str]:
        """``operation`` that puts vectors of even and of odd elements together."""
        return self._each(operation, given[1::2], given[::2], by=by)

    def _splat(self, value: int, bits: int) -> list[str]:
        name = f"HVX(lvsplatw)({_word(value, bits)})"
        return [name] * (self.lanes * bits // (8 * self.vector_bytes))

    def _in_order(self, given: list[str], bits: int) -> list[str]:
        """Vectors of even and odd elements as they lie in memory."""
        if len(given) == 1:
            return given
        half = len(given) // 2
        even, odd = (self._in_order(one, bits) for one in (given[:half], given[half:]))
        return self._pairs("vshuffvdd", odd, even, by=[str(-bits // 8)])

    def _dealt(self, given: list[str], bits: int) -> list[str]:
        """The other way."""
        if len(given) == 1:
            return given
        pairs = self._pairs("vdealvdd", given[1::2], given[::2], by=[str(-bits // 8)])
        return [*self._dealt(pairs[::2], bits), *self._dealt(pairs[1::2], bits)]

    def _resized(self, given: list[str], own: int, bits: int, *, is_signed: bool) -> list[str]:
        """Elements of ``own`` bits as some of ``bits``."""
        while own < bits:
            given = self._pairs(f"v{'s' if is_signed else 'z'}{_LETTERS[own]}", given)
            own *= 2
        while own > bits:
            given = self._joined("vshuffeb" if own == I16.bits else "vshufeh", given)
            own //= 2
        return given

    # Values

    def _at(self, value: Expr, bits: int) -> list[str]:
        """The low ``bits`` of ``value``, as vectors."""
        value, bits = self._lean(value), max(bits, self._base)
        key = value, bits
        if key not in self._known:
            self._known[key] = self._found(value, bits)
        return self._known[key]

    def _found(self, value: Expr, bits: int) -> list[str]:
        is_signed = self.scope.of(value).low < 0
        number = self._number(value)
        if number is not None:
            return self._splat(number, bits)
        if value.type != BOOL and not any(isinstance(one, Load) for one in ordered([value])):
            splat = self._made(f"HVX(lvsplat{_LETTERS[bits]})((int)({self._spelled(value)}))")
            return [splat] * len(self._splat(0, bits))
        if isinstance(value, Load):
            own = max(value.type.bits, self._base)
            return self._resized(self._loaded(value), own, bits, is_signed=is_signed)
        if isinstance(value, Cast) and value.operand.type == BOOL:
            one, none = (Constant(n, value.type) for n in (1, 0))
            return self._at(Select(value.operand, one, none), bits)
        if isinstance(value, Cast) and not value.saturates and bits <= value.type.bits:
            return self._at(value.operand, bits)
        brought = self._saturated(value)
        if brought is not None:
            made, kind = brought
            return self._resized(made, kind.bits, bits, is_signed=is_signed)
        follows = isinstance(value, Select) or (
            isinstance(value, Unary | Binary) and value.operator in (*_RING, "~")
        )
        least = self._fit(self.scope.of(value)) if follows else self._type(value)
        own = least.bits if least else value.type.bits
        if bits > own or (bits < own and not follows):
            return self._resized(self._at(value, own), own, bits, is_signed=is_signed)
        if isinstance(value, Cast) and value.saturates:
            return self._at(_with_ends(value), bits)
        made = self._computed(value, bits)
        if bits > value.type.bits and not of_type(value.type).covers(self.scope.exact(value)):
            return self._wrapped(made, value.type, bits)
        return made

    def _spelled(self, root: Expr) -> str:
        """C of what is computed of scalars alone."""
        texts: dict[Expr, Text] = {}
        for node in ordered([root]):
            parts = [texts[part] for part in node.parts]
            if isinstance(node, Variable):
                texts[node] = Text(self.scalars[node.name])
            elif isinstance(node, Constant):
                texts[node] = constant(node.value, node.type)
            elif isinstance(node, Select):
                texts[node] = chosen(*parts)
            else:
                texts[node] = self.operators.value(node, parts, self.scope)
        return texts[root].text

    def _computed(self, value: Expr, bits: int) -> list[str]:
        """``value`` as if its type had ``bits``."""
        if isinstance(value, Select):
            return self._chosen(value, bits)
        if isinstance(value, Unary):
            return self._unary(value, bits)
        if isinstance(value, Binary):
            return self._binary(value, bits)
        if isinstance(value, Cast):
            return self._at(value.operand, bits)
        raise RefusedError("it has a value that no vector has")

    def _wrapped(self, given: list[str], kind: Type, bits: int) -> list[str]:
        """What has no more than the bits of a ``kind`` that is narrower."""
        if not kind.is_signed:
            return self._each("vand", given, self._splat(kind.high, bits))
        above = self._to_the_left(given, bits, bits - kind.bits)
        return self._to_the_right(above, Type(bits, is_signed=True), bits - kind.bits)

    def _loaded(self, load: Load) -> list[str]:
        place, is_one = self.place(load)
        bits = max(load.type.bits, self._base)
        count = len(self._splat(0, bits))
        if is_one:
            splat = self._made(f"HVX(lvsplat{_LETTERS[bits]})(*{place})")
            return [splat] * count
        vectors = [self._made(f"PART({place}, {n})") for n in range(count)]
        return self._dealt(vectors, bits)

    def _chosen(self, value: Select, bits: int) -> list[str]:
        wide = max(bits, self._reach(value.condition))
        parts = [self._at(part, wide) for part in value.parts[1:]]
        made = self._each("vmux", self._holds(value.condition, wide), *parts)
        return self._resized(made, wide, bits, is_signed=False)

    def _reach(self, condition: Expr) -> int:
        """The bits that its comparisons take."""
        parts = condition.parts
        is_compared = isinstance(condition, Binary) and condition.operator in COMPARISONS
        if is_compared and parts[0].type != BOOL:
            return self._type(*parts).bits
        return max((self._reach(part) for part in parts), default=self._base)

    def _holds(self, condition: Expr, bits: int) -> list[str]:
        """Predicates, one for each vector of ``bits``."""
        if isinstance(condition, Unary):
            return [f"HVX(pred_not)({one})" for one in self._holds(condition.operand, bits)]
        if not isinstance(condition, Binary):
            raise RefusedError("it has a condition that no vector has")
        by, (left, right) = condition.operator, condition.parts
        if left.type == BOOL:
            name = {"&": "and", "|": "or", "^": "xor", "!=": "xor", "==": "xor"}[by]
            both = zip(self._holds(left, bits), self._holds(right, bits), strict=True)
            made = [f"HVX(pred_{name})({a}, {b})" for a, b in both]
            return [f"HVX(pred_not)({one})" for one in made] if by == "==" else made
        if by in ("<", ">="):
            left, right = right, left
        kind = Type(bits, self._type(left, right).is_signed)
        name = f"veq{_LETTERS[bits]}" if by in ("==", "!=") else f"vgt{_suffix(kind)}"
        both = zip(self._at(left, bits), self._at(right, bits), strict=True)
        made = [f"HVX({name})({a}, {b})" for a, b in both]
        return made if by in ("==", "<", ">") else [f"HVX(pred_not)({one})" for one in made]

    def _unary(self, value: Unary, bits: int) -> list[str]:
        inner, own = value.operand, value.operand.type.bits
        if value.operator == "~":
            made = self._each("vnot", self._at(inner, bits))
            return self._wrapped(made, value.type, bits) if bits > own else made
        if value.operator == "abs":
            return self._absolute(self._lean(inner), bits)
        if value.operator == "ctz":
            lower = ~inner & (inner - Constant(1, inner.type))
            return self._at(Unary("popcount", lower), bits)
        wide = max(own, I16.bits, self._base)
        # Of a byte, the bits above it count for nothing.
        given = self._resized(self._at(inner, own), max(own, self._base), wide, is_signed=False)
        if own < self._base:
            given = self._wrapped(given, inner.type.unsigned, wide)
        if value.operator == "clz":
            made = self._each(f"vcl0{_LETTERS[wide]}", given)
            if own < wide:
                made = self._each(f"vsub{_LETTERS[wide]}", made, self._splat(wide - own, wide))
        else:
            made = self._each("vpopcounth", given)
            if wide == I32.bits:
                upper = self._each("vlsrw", made, by=["16"])
                both = self._each("vaddh", made, upper)
                made = self._each("vand", both, self._splat(U16.high, wide))
        return self._resized(made, wide, bits, is_signed=False)

    def _absolute(self, inner: Expr, bits: int) -> list[str]:
        pair = self._two(inner)
        if pair is not None and pair[2] < 0:
            return self._apart(*pair[:2], bits)
        kind = self._fit(self.scope.of(inner), _NEGATIVE) or self._type(inner)
        made = self._each(f"vabs{_LETTERS[kind.bits]}", self._at(inner, kind.bits))
        return self._resized(made, kind.bits, bits, is_signed=False)

    def _apart(self, left: Expr, right: Expr, bits: int) -> list[str]:
        """Their absolute difference."""
        kind = self._type(left, right)
        kind = I16 if kind == I8 else kind
        if kind == U32:
            raise RefusedError("it has differences of words without a sign")
        given = (self._at(one, kind.bits) for one in (left, right))
        made = self._each(f"vabsdiff{_suffix(kind)}", *given)
        return self._resized(made, kind.bits, bits, is_signed=False)

    def _two(self, value: Expr) -> tuple[Expr, Expr, int] | None:
        """The two that ``value`` is the sum or difference of, and the sign of the other."""
        terms = self._terms(value)
        offset = terms.pop(None, 0)
        if offset and len(terms) == 1:
            terms[Constant(abs(offset), value.type)] = 1 if offset > 0 else -1
        elif offset:
            return None
        ordered = sorted(terms.items(), key=lambda one: -one[1])
        if [n for _, n in ordered] not in ([1, 1], [1, -1]):
            return None
        (one, _), (other, sign) = ordered
        assert one is not None and other is not None  # noqa: S101, PT018 - popped
        return one, other, sign

    def _binary(self, value: Binary, bits: int) -> list[str]:
        by, (left, right) = value.operator, value.parts
        if by in ("+", "-"):
            return self._sum(value, bits)
        if by == "*":
            return self._product(value, bits)
        if by in _BITWISE:
            return self._each(_BITWISE[by], self._at(left, bits), self._at(right, bits))
        if by in ("<<", ">>"):
            return self._shifted(value, bits)
        if by in ("min", "max"):
            return self._extreme(value, bits)
        if by == "absd":
            return self._apart(left, right, bits)
        if by == "//":
            return self._quotient(left, right, bits)
        if by == "%":
            return self._rest(left, right, bits)
        raise RefusedError("it stores conditions")

    def _extreme(self, value: Binary, bits: int) -> list[str]:
        kind = self._type(*value.parts)
        left, right = (self._at(part, kind.bits) for part in value.parts)
        if kind == U32:
            greater = [f"HVX(vgtuw)({a}, {b})" for a, b in zip(left, right, strict=True)]
            both = (left, right) if value.operator == "max" else (right, left)
            made = self._each("vmux", greater, *both)
        else:
            made = self._each(f"v{value.operator}{_suffix(kind)}", left, right)
        return self._resized(made, kind.bits, bits, is_signed=kind.is_signed)

    # Sums and products

    def _sum(self, value: Binary, bits: int) -> list[str]:
        terms = self._terms(value)
        if any(self._multiplies(one, n, bits) for one, n in terms.items()):
            return self._of_products(terms, bits)
        left, right = map(self._lean, value.parts)
        by = "add" if value.operator == "+" else "sub"
        half = bits // 2
        kind = self._fit(self.scope.of(left), self.scope.of(right))
        if kind is not None and half >= self._base and kind.bits <= half:
            given = self._at(left, half), self._at(right, half)
            wide, narrow = _LETTERS[bits], _suffix(Type(half, kind.is_signed))
            if kind.bits < half:
                narrow = _LETTERS[half]  # of either sign
            if narrow in ("ub", "h", "uh"):
                return self._pairs(f"v{by}{narrow}{wide}", *given)
        return self._each(f"v{by}{_LETTERS[bits]}", self._at(left, bits), self._at(right, bits))

    def _multiplies(self, term: Expr | None, times: int, bits: int) -> bool:
        """Whether ``times * term`` is one multiplication, of operands of half the width."""
        if term is None or bits // 2 < self._base:
            return False
        if times == 1:
            return self._widens(term, bits)
        kind = self._fit(self.scope.of(term))
        fits = (U8.holds(times) or I8.holds(times)) if bits == U16.bits else I16.holds(times)
        return times != -1 and fits and kind is not None and kind.bits <= bits // 2

    def _of_products(self, terms: dict[Expr | None, int], bits: int) -> list[str]:
        """A sum of multiples and products: one after the other is added to what there is."""
        offset = terms.pop(None, 0)
        total = self._splat(offset, bits) if offset else None
        products = dict[Expr, int]()
        for one, times in terms.items():
            assert one is not None  # noqa: S101 - popped
            if self._multiplies(one, times, bits):
                products[one] = times
                continue
            factor = Constant(abs(times), I32)
            own = one if abs(times) == 1 else Cast(I32, one) * factor
            given, sign = self._at(own, bits), "add" if times > 0 else "sub"
            if total is None and times > 0:
                total = given
            else:
                start = total or self._splat(0, bits)
                total = self._each(f"v{sign}{_LETTERS[bits]}", start, given)
        bytes_of = [
            one
            for one, times in products.items()
            if bits == U16.bits and I8.holds(times) and not self._is_signed(one, U8.bits)
            if times != 1
        ]
        for one, other in zip(bytes_of[::2], bytes_of[1::2], strict=False):
            weights = [products.pop(each) & U8.high for each in (one, other)]
            both = zip(self._at(other, U8.bits), self._at(one, U8.bits), strict=True)
            pairs = [f"HVX(vcombine)({second}, {first})" for second, first in both]
            word = _word(weights[1] << U8.bits | weights[0], U16.bits)
            total = self._added("vmpabus", total, pairs, by=[word])
        for one, times in products.items():
            if times == 1:
                assert isinstance(one, Binary)  # noqa: S101 - it is a product
                total = self._product(one, bits, total)
            else:
                total = self._wide_product(one, Constant(times, I32), bits, total)
        assert total is not None  # noqa: S101 - there is a term
        return total

    def _added(
        self, operation: str, total: list[str] | None, *given: list[str], by: Iterable[str] = ()
    ) -> list[str]:
        """``operation`` that widens, added to a ``total`` if there is one."""
        if total is None:
            return self._pairs(operation, *given, by=by)
        pairs = [f"HVX(vcombine)({b}, {a})" for a, b in zip(total[::2], total[1::2], strict=True)]
        return self._pairs(f"{operation}_acc", pairs, *given, by=by)

    def _widens(self, value: Expr, bits: int) -> bool:
        """Whether it is a product of factors of half the width."""
        half = bits // 2
        if not isinstance(value, Binary) or value.operator != "*" or half < self._base:
            return False
        kinds = [self._fit(self.scope.of(part)) for part in value.parts]
        return all(kind is not None and kind.bits <= half for kind in kinds)

    def _product(self, value: Binary, bits: int, total: list[str] | None = None) -> list[str]:
        """A product, added to a ``total`` if there is one."""
        one, other = sorted(map(self._lean, value.parts), key=self._is_number)
        number = self._number(other)
        if self._widens(value, bits):
            return self._wide_product(one, other, bits, total)
        if number is not None and number > 0 and number.bit_count() == 1:
            return self._to_the_left(self._at(one, bits), bits, number.bit_length() - 1)
        given = self._at(one, bits), self._at(other, bits)
        if bits == U8.bits:
            return self._joined("vshuffeb", self._pairs("vmpyubv", *given))
        if bits == U16.bits:
            if number is not None and I8.holds(number):
                return self._each("vmpyihb", given[0], by=[_word(number, 8)])
            return self._each("vmpyih", *given)
        if number is not None and I16.holds(number):
            return self._each("vmpyiwh", given[0], by=[_word(number, 16)])
        return self._each("vmpyiewuh_acc", self._each("vmpyieoh", *given), *given)

    def _is_number(self, value: Expr) -> bool:
        return self._number(value) is not None

    def _wide_product(
        self, one: Expr, other: Expr, bits: int, total: list[str] | None
    ) -> list[str]:
        half, number = bits // 2, self._number(other)
        letter, signs = _LETTERS[half], [self._is_signed(each, half) for each in (one, other)]
        given = [self._at(one, half), self._at(other, half)]
        scalar: list[str] = []
        if number is not None and half == U8.bits and not signs[0]:
            is_byte = U8.holds(number)
            name, given = "vmpyub" if is_byte else "vmpybus", given[:1]
            scalar = [_word(number, 8)]
        elif number is not None and half == U16.bits and (number >= 0 or signs[0]):
            if signs[0] and I16.holds(number):
                name, given, scalar = "vmpyh", given[:1], [_word(number, 16)]
            elif not signs[0]:
                name, given, scalar = "vmpyuh", given[:1], [_word(number, 16)]
            else:
                name = "vmpyhus"
        elif signs[0] == signs[1]:
            name = f"vmpy{'' if signs[0] else 'u'}{letter}v"
        else:
            given = given[::-1] if signs[0] == (half == U8.bits) else given
            name = "vmpybusv" if half == U8.bits else "vmpyhus"
        return self._added(name, total, *given, by=scalar)

    def _is_signed(self, value: Expr, bits: int) -> bool:
        """Whether its sign is to be looked at in ``bits``."""
        return not of_type(Type(bits, is_signed=False)).covers(self.scope.of(value))

    # Saturation, and shifts

    def _saturated(self, value: Expr) -> tuple[list[str], Type] | None:
        """``value`` by an operation that saturates, and its type, if there is one."""
        low: int | None = None
        high: int | None = None
        inner = value
        while True:
            inner = self._lean(inner)
            bound = self._number(inner.parts[1]) if isinstance(inner, Binary) else None
            if isinstance(inner, Cast) and inner.saturates and low is None and high is None:
                (inner,), (low, high) = inner.parts, of_type(inner.type)
            elif isinstance(inner, Binary) and bound is not None and inner.operator == "min":
                if high is not None or (low is not None and low > bound):
                    break
                inner, high = inner.left, bound
            elif isinstance(inner, Binary) and bound is not None and inner.operator == "max":
                if low is not None or (high is not None and high < bound):
                    break
                inner, low = inner.left, bound
            else:
                break
        if low is None and high is None:
            return None
        own = self.scope.of(inner)
        for kind in _TYPES:
            is_low = low == kind.low or own.low >= max(kind.low, own.low if low is None else low)
            most = own.high if high is None else high
            is_high = high == kind.high or own.high <= min(kind.high, most)
            if kind.bits >= self._base and is_low and is_high:
                made = self._brought(inner, kind)
                if made is not None:
                    return made, kind
        return None

    def _brought(self, inner: Expr, kind: Type) -> list[str] | None:
        """``inner`` brought between the ends of ``kind``, if an operation does that."""
        pair, whole = self._two(inner), of_type(kind)
        if pair is not None and all(whole.covers(self.scope.of(one)) for one in pair[:2]):
            given = (self._at(one, kind.bits) for one in pair[:2])
            return self._each(f"v{'add' if pair[2] > 0 else 'sub'}{_suffix(kind)}sat", *given)
        if isinstance(inner, Binary) and inner.operator == ">>":
            by = self._number(inner.right)
            if by is not None and 0 <= by < I32.bits:
                made = self._narrowed(self._lean(inner.left), by, kind)
                if made is not None:
                    return made
        return self._narrowed(inner, 0, kind)

    def _narrowed(self, inner: Expr, by: int, kind: Type) -> list[str] | None:
        """``inner`` shifted right and brought between the ends of ``kind``; ``None`` if that takes
        more than what narrows."""
        half = 1 << by - 1 if by else 0
        rest = inner.left if isinstance(inner, Binary) and inner.operator == "+" else None
        rounds = rest is not None and half and self._number(inner.parts[1]) == half
        if rest is not None and rounds:
            made = self._put(self._lean(rest), by, kind, rounds=True)
            if made is not None:
                return made
        return self._put(inner, by, kind, rounds=False)

    def _put(self, inner: Expr, by: int, kind: Type, *, rounds: bool) -> list[str] | None:
        product = self._of_words(inner, by, kind, rounds=rounds)
        if product is not None:
            return product
        own = self.scope.of(inner)
        source = self._fit(own, _NEGATIVE) if kind.is_signed else self._fit(own)
        if source is None:
            return None
        if source.bits == 4 * kind.bits:
            made = self._narrowed_by(inner, source, by, I16, rounds=rounds)
            return made and self._pack(made, I16, 0, kind, rounds=False)
        if source.bits < 2 * kind.bits:
            source = Type(2 * kind.bits, source.is_signed)
        if source.bits != 2 * kind.bits or source not in _TYPES:
            return None
        return self._narrowed_by(inner, source, by, kind, rounds=rounds)

    def _narrowed_by(
        self, inner: Expr, source: Type, by: int, kind: Type, *, rounds: bool
    ) -> list[str] | None:
        given = self._at(inner, source.bits)
        made = self._pack(given, source, by, kind, rounds=rounds)
        if made is None and not rounds:
            return self._pack(self._to_the_right(given, source, by), source, 0, kind, rounds=False)
        return made

    def _pack(
        self, given: list[str], source: Type, by: int, kind: Type, *, rounds: bool
    ) -> list[str] | None:
        """Elements of ``source``, shifted right, as some of half the width that saturate."""
        pair = _suffix(source), _suffix(kind)
        if kind.is_signed and not source.is_signed:
            return None
        if by == 0 and (direct := _DIRECT.get(pair)):
            return self._joined(direct, given)
        if by < kind.bits:
            return self._joined(f"vasr{''.join(pair)}{'rnd' if rounds else ''}sat", given, str(by))
        if by == kind.bits and rounds:
            return self._joined(f"vround{''.join(pair)}", given)
        return None

    def _of_words(self, inner: Expr, by: int, kind: Type, *, rounds: bool) -> list[str] | None:
        """The upper word of a product of two words, doubled."""
        if by != _HIGH_PRODUCT or kind != I32 or not isinstance(inner, Binary):
            return None
        factors = [self._lean(part) for part in inner.parts]
        if inner.operator != "*" or self._fit(*map(self.scope.of, factors)) != I32:
            return None
        given = [self._at(one, I32.bits) for one in factors]
        low = self._each("vmpyewuh", *given)
        return self._each("vmpyowh_rnd_sacc" if rounds else "vmpyowh_sacc", low, *given)

    def _shifted(self, value: Binary, bits: int) -> list[str]:
        by, is_left = self._number(value.right), value.operator == "<<"
        if by is None:
            return self._moved(value, bits)
        if is_left == (by >= 0):
            return self._to_the_left(self._at(value.left, bits), bits, abs(by))
        inner, by = self._lean(value.left), abs(by)
        kind = self._type(value)
        mean = self._mean(inner, kind, bits) if by == 1 else None
        if mean is not None:
            return mean
        own = self._fit(self.scope.of(inner))
        if own is None or own.bits > bits:
            rounded = self._rounded(inner, by)
            if own is not None and own.bits == 2 * bits and by >= bits and not rounded:
                name = "vshuffob" if own.bits == U16.bits else "vshufoh"
                upper = self._joined(name, self._at(inner, own.bits))
                return self._to_the_right(upper, Type(bits, own.is_signed), by - bits)
            made = self._narrowed(inner, by, Type(bits, kind.is_signed))
            if made is not None:
                return made
        if own is None:
            raise RefusedError("words do not hold its values")
        made = self._to_the_right(self._at(inner, own.bits), own, by)
        return self._resized(made, own.bits, bits, is_signed=own.is_signed)

    def _rounded(self, inner: Expr, by: int) -> bool:
        is_sum = isinstance(inner, Binary) and inner.operator == "+"
        return is_sum and self._number(inner.parts[1]) == 1 << by - 1

    def _mean(self, inner: Expr, kind: Type, bits: int) -> list[str] | None:
        """Half a sum or difference."""
        terms = self._terms(inner)
        offset = terms.pop(None, 0)
        ordered = sorted(terms.items(), key=lambda one: -one[1])
        if [n for _, n in ordered] not in ([1, 1], [1, -1]) or offset not in (0, 1):
            return None
        own = self._fit(*(self.scope.of(one) for one, _ in ordered if one is not None))
        is_sum = ordered[1][1] > 0
        if own is None or own.bits != bits or (not is_sum and (offset or own in (U16, U32))):
            return None
        if not is_sum and kind.bits != bits:
            return None
        given = (self._at(one, bits) for one, _ in ordered if one is not None)
        rounds = "rnd" if offset else ""
        return self._each(f"v{'' if is_sum else 'n'}avg{_suffix(own)}{rounds}", *given)

    def _to_the_left(self, given: list[str], bits: int, by: int) -> list[str]:
        if by >= bits:
            return self._splat(0, bits)
        if by == 0:
            return given
        if bits == U8.bits:
            kept = self._each("vand", given, self._splat(U8.high >> by, bits))
            return self._each("vaslh", kept, by=[str(by)])
        return self._each(f"vasl{_LETTERS[bits]}", given, by=[str(by)])

    def _to_the_right(self, given: list[str], kind: Type, by: int) -> list[str]:
        bits = kind.bits
        if by == 0:
            return given
        if not kind.is_signed:
            if by >= bits:
                return self._splat(0, bits)
            return self._each(f"vlsr{_LETTERS[bits]}", given, by=[str(by)])
        by = min(by, bits - 1)
        if bits > I8.bits:
            return self._each(f"vasr{_LETTERS[bits]}", given, by=[str(by)])
        above = self._each("vxor", given, self._splat(1 << bits - 1, bits))
        moved = self._each("vlsrb", above, by=[str(by)])
        return self._each("vsubb", moved, self._splat(1 << bits - 1 - by, bits))

    def _moved(self, value: Binary, bits: int) -> list[str]:
        """A shift by elements, right or, where they are negative, left."""
        inner, count = map(self._lean, value.parts)
        own, by = self._type(inner), self.scope.of(count)
        wide = max(U16.bits, own.bits, bits)
        kind, letter = Type(wide, own.is_signed), _LETTERS[wide]
        if by.high > wide:
            count = Binary("min", count, Constant(wide, count.type))
        if by.low < -wide:
            count = Binary("max", count, Constant(-wide, count.type))
        amount, most = self._at(count, wide), by.high
        is_left = value.operator == "<<" and by.low >= 0
        if value.operator == "<<" and not is_left:
            amount, most = self._each(f"vsub{letter}", self._splat(0, wide), amount), -by.low
        name = "vasl" if is_left else "vasr" if kind.is_signed else "vlsr"
        beyond: list[str] = []
        if most >= wide and name == "vasr":
            amount = self._each(f"vmin{letter}", amount, self._splat(wide - 1, wide))
        elif most >= wide:
            given = zip(amount, self._splat(wide - 1, wide), strict=True)
            beyond = [f"HVX(vgt{letter})({a}, {b})" for a, b in given]
        made = self._each(f"{name}{letter}v", self._at(inner, wide), amount)
        if beyond:
            made = self._each("vmux", beyond, self._splat(0, wide), made)
        return self._resized(made, wide, bits, is_signed=kind.is_signed)

    # Quotients

    def _quotient(self, left: Expr, right: Expr, bits: int) -> list[str]:
        """Halide's quotient: no remainder is negative, and by 0 it is 0."""
        number, none = self._number(right), Constant(0, left.type)
        if number == 0:
            return self._splat(0, bits)
        if self.scope.of(right).low < 0:
            wide = left.type
            if number is None and wide.bits < I32.bits:  # which holds all of its opposites
                wide = Type(2 * wide.bits, is_signed=True)
            left, right, none = Cast(wide, left), Cast(wide, right), Constant(0, wide)
            if number is not None:
                return self._at(none - left // Constant(-number, wide), bits)
            by = Cast(wide, Unary("abs", right))
            either = Select(right < 0, none - left // by, left // by)
            return self._at(Select(Binary("==", right, none), none, either), bits)
        if self.scope.of(left).low < 0:
            is_less = left < 0
            positive = Select(is_less, ~left, left) // right
            whole: Expr = Select(is_less, ~positive, positive)
            if number is None:
                whole = Select(Binary("==", right, none), none, whole)
            return self._at(whole, bits)
        kind = self._type(left)
        if number is not None:
            made = self._by_number(left, kind, number)
            return self._resized(made, kind.bits, bits, is_signed=False)
        if self._type(left, right) != U8:
            raise RefusedError("it divides by elements of more than 8 bits")
        return self._resized(self._of_bytes(left, right), U8.bits, bits, is_signed=False)

    def _rest(self, left: Expr, right: Expr, bits: int) -> list[str]:
        whole: Expr = left - (left // right) * right
        if self.scope.of(right).low <= 0 <= self.scope.of(right).high:
            none = Constant(0, left.type)
            whole = Select(Binary("==", right, none), none, whole)
        own = max(bits, self._type(right, left).bits)
        return self._resized(self._at(whole, own), own, bits, is_signed=False)

    def _by_number(self, left: Expr, kind: Type, divisor: int) -> list[str]:
        """``left``, of ``kind`` without a sign, divided."""
        bits, most = kind.bits, self.scope.of(left).high
        if bits > U16.bits:
            raise RefusedError("it divides words")
        factor, added, shift = _reciprocal(divisor, bits, most)
        given, name = self._at(left, bits), "vmpyub" if bits == U8.bits else "vmpyuh"
        scalar = [_word(factor, bits)]
        if added:
            total = self._splat(added, 2 * bits)[0]
            pairs = [f"HVX(vcombine)({total}, {total})"] * len(given)
            wide = self._pairs(f"{name}_acc", pairs, given, by=scalar)
        else:
            wide = self._pairs(name, given, by=scalar)
        upper = self._joined("vshuffob" if bits == U8.bits else "vshufoh", wide)
        return self._to_the_right(upper, kind, shift - bits)

    def _of_bytes(self, left: Expr, right: Expr) -> list[str]:
        """A quotient of bytes: by a reciprocal that may lead to one too many."""
        (dividend,), (divisor,) = self._at(left, U8.bits), self._at(right, U8.bits)
        near, far = _reciprocals()
        for name, entries in (("near_reciprocals", near), ("far_reciprocals", far)):
            padded = [*entries, *[0] * (self.vector_bytes - len(entries))]
            half = self.vector_bytes // 2
            self.tables[name] = [padded[n // 2 + half * (n % 2)] for n in range(2 * half)]
        table, other = (f"*(const V *){name}" for name in self.tables)
        found = self._made(f"HVX(vlutvvbi)({divisor}, {table}, 0)")
        for part in range(1, _NEAR // _LOOKED_UP):
            found = self._made(f"HVX(vlutvvb_oracci)({found}, {divisor}, {table}, {part})")
        (index,) = self._to_the_right([divisor], U8, _STEP.bit_length() - 1)
        found = self._made(f"HVX(vlutvvb_oracci)({found}, {index}, {other}, 0)")
        whole = self._made(f"HVX(vmpyub)({dividend}, {_word(1, 8)})", "W")
        wide = self._pairs("vmpyubv_acc", [whole], [dividend], [found])
        (guess,) = self._joined("vshuffob", wide)
        back = self._made(f"HVX(vmpyubv)({guess}, {divisor})", "W")
        left_over = self._made(f"HVX(vsubh_dv)({whole}, {back})", "W")
        sign = self._made(f"HVX(vshuffob)(HVX(hi)({left_over}), HVX(lo)({left_over}))")
        return self._each("vaddb", [guess], [sign])


_DIRECT = {("h", "ub"): "vsathub", ("w", "h"): "vsatwh", ("uw", "uh"): "vsatuwuh"}


def _suffix(kind: Type) -> str:
    return ("" if kind.is_signed else "u") + _LETTERS[kind.bits]


def _with_ends(value: Cast) -> Expr:
    """A cast that saturates as one that does not."""
    inner, own = value.operand, value.operand.type
    if value.type.high < own.high:
        inner = Binary("min", inner, Constant(value.type.high, own))
    if value.type.low > own.low:
        inner = Binary("max", inner, Constant(value.type.low, own))
    return Cast(value.type, inner)


def _word(value: int, bits: int) -> str:
    """A word of the same value again and again, as C has it with a sign."""
    word = sum((value & (1 << bits) - 1) << at for at in range(0, I32.bits, bits))
    return str(I32.wrapped(word))


def _reciprocal(divisor: int, bits: int, most: int) -> tuple[int, int, int]:
    """A factor of ``bits``, what is added, and a shift, with which numbers up to ``most`` are
    divided (Warren, Hacker's Delight, chapter 10; Robison, N-bit unsigned division via N-bit
    multiply-add, 2005)."""
    for shift in range(bits, 2 * bits):
        below, rest = divmod(1 << shift, divisor)
        if rest == 0 and below < 1 << bits:
            return below, 0, shift
        if below + 1 < 1 << bits and (divisor - rest) * most < 1 << shift:
            return below + 1, 0, shift
        if 0 < below < 1 << bits and rest * (most + 1) <= 1 << shift:
            return below, below, shift
    raise RefusedError(f"it divides by {divisor}")


def _reciprocals() -> tuple[list[int], list[int]]:
    """256 over each byte, rounded up, less 1: of small ones, and of the first of eight each."""
    near = [0, *(U8.high // n for n in range(1, _NEAR))]
    first = _NEAR // _STEP
    far = [0] * first + [U8.high // (_STEP * n) for n in range(first, _LOOKED_UP)]
    return near, far
