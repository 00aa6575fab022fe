"""The output pixel of an uploaded stencil as an expression (:mod:`tuner.kernels.pixel`).

Read from the definitions alone, as the reference is: all stages are written into one another, and
small reductions out. A stencil is a pipeline of u8 images to another of the same shape, whose edges
continue as the pixels at them where pixels beyond are read (``BoundaryConditions.repeat_edge``, or
clamped coordinates). Images may be of interleaved channels, and inputs of one dimension tables that
are looked up; the sum of a whole row is a value as well. Integers that wrap around are followed as
long as only sums are made of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tuner.codegen.halide.uploads.answers import NotTunableError
from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    Update,
    checked,
    is_true,
    is_variable,
)
from tuner.codegen.halide.uploads.intrinsics import Type
from tuner.codegen.halide.uploads.serialized import DamagedError, Node
from tuner.kernels.pixel import (
    NotAStencilError,
    Pixel,
    absolute,
    at,
    clamped,
    constant,
    divided,
    entry,
    maximum,
    minimum,
    row_sum,
    scaled,
)

_MOST_BYTES = 1 << 18
"""A stencil has few stages; larger pipelines are not looked at."""
_MOST_STEPS = 100_000
"""Parts of expressions that are looked at or made: a second or so."""
_U8: Type = ("uint", 8)
_INPUTS = ((_U8, 1), (_U8, 2), (_U8, 3))
"""Tables, images, and images in planes."""
_OUTPUTS: tuple[Type, ...] = (_U8, ("uint", 16), ("int", 16))
_SHORT = 33
"""Steps of a reduction that are written out, rather than taken for those of a row."""
_PRODUCT_BITS = 15
"""Of the multiplication that rounds (``vmpy(h, h):<<1:rnd:sat``)."""


@dataclass(frozen=True)
class _Place:
    """A coordinate: multiples of the variables in ``terms``, and an offset; then, if ``at_least``
    or ``at_most`` names an input, not below or beyond that image along a dimension."""

    terms: tuple[tuple[str, int], ...]
    offset: int
    at_least: str = ""
    at_most: str = ""

    def added(self, other: _Place, sign: int) -> _Place:
        if self.at_least or self.at_most or other.at_least or other.at_most:
            raise NotAStencilError("it moves on from a clamped coordinate")
        terms = dict(self.terms)
        for name, factor in other.terms:
            terms[name] = terms.get(name, 0) + sign * factor
        kept = tuple(sorted((name, factor) for name, factor in terms.items() if factor))
        return _Place(kept, self.offset + sign * other.offset)


_AXES = ("x", "y", "plane")


def pixel_of(data: bytes, extents: Mapping[str, Sequence[int]] | None = None) -> Pixel:
    """The output pixel of the pipeline ``data``; ``NotAStencilError`` says why it has none.

    ``extents`` are those of its inputs, innermost first, by name: rows may be as long as they are.
    """
    if len(data) > _MOST_BYTES:
        raise NotAStencilError(f"its pipeline has more than {_MOST_BYTES} bytes")
    try:
        return _Reading(checked(data), extents or {}).pixel()
    except (DamagedError, NotTunableError) as error:
        raise NotAStencilError(str(error)) from None
    except RecursionError:
        raise NotAStencilError("its expressions nest too deep") from None


class _Reading:
    def __init__(self, contents: Contents, extents: Mapping[str, Sequence[int]]) -> None:
        self._contents = contents
        self._extents = extents
        self._types = contents.types
        self._steps = 0
        self._known: dict[tuple[str, tuple[Pixel | _Place, ...]], Pixel] = {}

    def pixel(self) -> Pixel:
        """The output's value where nothing is near an edge."""
        inputs, outputs = self._contents.inputs, self._contents.outputs
        if not inputs or len(outputs) != 1 or self._contents.tables:
            raise NotAStencilError("it is not one image made of others")
        output = self._contents.funcs[outputs[0]]
        is_image = output.types[0] in _OUTPUTS and len(output.dimensions) in (2, 3)
        if not is_image or any(one not in _INPUTS for one in inputs.values()):
            raise NotAStencilError("its inputs are not of u8, or its output not of 8 or 16 bits")
        axes = _AXES[: len(output.dimensions)]
        found = self._call(output.name, tuple(_Place(((axis, 1),), 0) for axis in axes))
        is_byte = output.types[0][1] == 8  # the generator stores the low bits
        return found if is_byte else self._plain(found, output.types[0])

    def _call(self, name: str, places: tuple[Pixel | _Place, ...]) -> Pixel:
        """The value of a Func at ``places``."""
        key = name, places
        if key not in self._known:
            self._known[key] = self._value(self._contents.funcs[name], places)
        return self._known[key]

    def _value(self, func: Func, places: tuple[Pixel | _Place, ...]) -> Pixel:
        if len(func.types) != 1:
            raise NotAStencilError(f"its stage {func.name} has several values")
        scope: dict[str, Any] = dict(zip(func.dimensions, places, strict=True))
        try:
            value = self._number(self._of(func.values[0], scope))
        except NotAStencilError:
            edge = _BOUNDARY_CONDITION.match(func.name)
            if edge is None:
                raise
            raise NotAStencilError(
                f"{edge[0]} continues an input beyond its edges; of those, it knows repeat_edge"
            ) from None
        for update in func.updates:
            value = self._updated(func, update, value, scope)
        return value

    def _updated(self, func: Func, update: Update, value: Pixel, scope: Mapping[str, Any]) -> Pixel:
        """``value`` after all steps of a reduction."""
        own = zip(update.places, func.dimensions, strict=True)
        if not is_true(update.predicate) or not all(is_variable(p, name) for p, name in own):
            raise NotAStencilError(f"an update of its stage {func.name} is not of whole rows")
        domain, counts = [], []
        for name, least, extent in update.rvars:
            first, count = (self._bound(self._of(one, {})) for one in (least, extent))
            domain.append([(name, at) for at in range(first, first + count)])
            counts.append((first, count))
        key = func.name, tuple(scope[name] for name in func.dimensions)
        if len(counts) == 1 and counts[0][0] == 0 and counts[0][1] > _SHORT:
            return value + self._sum_of_row(update, scope, key, counts[0][1])
        for point in product(*domain[::-1]):
            self._known[key] = value  # what the definition reads of itself
            inner = {**scope, **{name: _Place((), at) for name, at in point}}
            value = self._number(self._of(update.values[0], inner))
        self._known.pop(key, None)
        return value

    def _bound(self, value: Pixel | _Place) -> int:
        """An end of a reduction: a number, or an extent of an input."""
        if isinstance(value, _Place) and len(value.terms) == 1:
            (((name, factor),), offset) = value.terms, value.offset
            place, _, dimension = name.rpartition(".extent.")
            if place in self._extents and factor == 1:
                return self._extents[place][int(dimension)] + offset
        return self._integer(value)

    def _sum_of_row(
        self,
        update: Update,
        scope: Mapping[str, Any],
        key: tuple[str, tuple[Pixel | _Place, ...]],
        width: int,
    ) -> Pixel:
        """The sum that a reduction along a row of ``width`` pixels adds."""
        along = {update.rvars[0][0]: _Place(((_AXES[0], 1),), 0)}
        made = []
        for own in (constant(0), constant(1)):
            self._known[key] = own
            made.append(self._number(self._of(update.values[0], {**scope, **along})))
        self._known.pop(key, None)
        part, other = made
        if other - part != constant(1):
            raise NotAStencilError("it reduces a row, and not to its sum")
        return row_sum(part, width)

    def _of(self, node: Node, scope: Mapping[str, Any]) -> Pixel | _Place:
        """A number, or a coordinate."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotAStencilError("it is too large when its stages are written into one another")
        kind = node.kind
        if kind in ("IntImm", "UIntImm"):
            value = node["value"]
            return _Place((), value)
        if kind == "Variable":
            return self._variable(node, scope)
        if kind == "Let":
            inner = {**scope, node["name"]: self._of(node["value"], scope)}
            return self._of(node["body"], inner)
        if kind == "Call":
            return self._called(node, scope)
        if kind == "Cast":
            return self._cast(node, scope)
        if kind in _BINARY:
            a, b = (self._of(node[side], scope) for side in "ab")
            if isinstance(a, _Place) and isinstance(b, _Place):
                return self._coordinate(kind, a, b)
            types = self._types[node["a"]], self._types[node["b"]]
            return self._priced(self._combined(kind, self._number(a), self._number(b), types))
        raise NotAStencilError(f"{node.where} uses {_WRITTEN.get(kind, kind)}")

    def _priced(self, value: Pixel) -> Pixel:
        """``value``, which took as long to make as it has parts."""
        self._steps += len(value.parts)
        return value

    def _variable(self, node: Node, scope: Mapping[str, Any]) -> Pixel | _Place:
        name = node["name"]
        if name in scope:
            found: Pixel | _Place = scope[name]
            return found
        for input_name in self._contents.inputs:
            for number in range(len(_AXES)):
                for end in ("min", "extent"):
                    if name == f"{input_name}.{end}.{number}":
                        return _Place(((name, 1),), 0)
        raise NotAStencilError(f"it depends on {name}")

    def _coordinate(self, kind: str, a: _Place, b: _Place) -> Pixel | _Place:
        """Coordinates, and numbers, which are coordinates that no variable moves."""
        if kind in ("Add", "Sub"):
            return a.added(b, 1 if kind == "Add" else -1)
        if not a.terms and not b.terms and kind in ("Mul", "Min", "Max"):
            value = {"Mul": a.offset * b.offset, "Min": min(a.offset, b.offset)}
            return _Place((), value.get(kind, max(a.offset, b.offset)))
        if kind == "Mul" and (not a.terms or not b.terms) and not any(map(_is_clamped, (a, b))):
            moving, factor = (a, b.offset) if a.terms else (b, a.offset)
            terms = tuple((name, factor * own) for name, own in moving.terms if factor)
            return _Place(terms, factor * moving.offset)
        if kind in ("Min", "Max"):
            for (one, bound), name in product(((a, b), (b, a)), self._contents.inputs):
                # The plane of a number is there: the shapes are looked at later.
                axis = _axis(one) if one.terms else len(_AXES) - 1
                least, extent = (f"{name}.{end}.{axis}" for end in ("min", "extent"))
                if axis is not None and kind == "Min" and bound == _last(least, extent):
                    return replace(one, at_most=name)
                if axis is not None and kind == "Max" and bound == _Place(((least, 1),), 0):
                    return replace(one, at_least=name)
        raise NotAStencilError("a coordinate is not that of a pixel and an offset")

    def _called(self, node: Node, scope: Mapping[str, Any]) -> Pixel | _Place:
        name, kind = node["name"], node["call_type"]
        if kind == "Halide":
            if node["value_index"]:
                raise NotAStencilError(f"its stage {name} has several values")
            return self._call(name, tuple(self._of(one, scope) for one in node["args"]))
        if kind == "Image":
            return self._input(name, [self._of(a, scope) for a in node["args"]])
        arguments = [self._of(one, scope) for one in node["args"]]
        if name in ("likely", "likely_if_innermost"):
            return arguments[0]
        if name not in _CALLS:
            raise NotAStencilError(f"it calls {name}")
        types = [self._types[one] for one in node["args"]]
        numbers = [
            self._plain(self._number(one), own) for one, own in zip(arguments, types, strict=True)
        ]
        return self._priced(_CALLS[name](self._types[node], *numbers))

    def _input(self, name: str, places: Sequence[Pixel | _Place]) -> Pixel:
        """The pixel of an image, or the entry of a table."""
        if len(places) == 1:
            return entry(name, self._number(places[0]))
        alone = len(self._contents.inputs) == 1
        return _pixel(name, [self._place(one) for one in places], "" if alone else name)

    def _cast(self, node: Node, scope: Mapping[str, Any]) -> Pixel | _Place:
        given, wanted = self._types[node["value"]], self._types[node]
        shifted = self._shifted_in(node["value"], wanted[1], scope)
        value = self._of(node["value"], scope) if shifted is None else shifted
        if isinstance(value, _Place):
            if wanted[0] == "float" or (value.terms and wanted != ("int", 32)):
                raise NotAStencilError("it computes with coordinates, or with floats")
            return value
        if "float" in (given[0], wanted[0]):
            raise NotAStencilError("it computes with floats")
        # Bits that are cut off may be wrong already; those that are added may not.
        return self._plain(value, given) if wanted[1] > given[1] else value

    def _shifted_in(self, node: Node, bits: int, scope: Mapping[str, Any]) -> Pixel | None:
        """``node``, if it is a shift right to the low ``bits`` of which no other bits come than
        those of what it shifts, whose type that may overflow."""
        is_call = node.kind == "Call" and node["name"] == "shift_right"
        if not (is_call or node.kind == "Div"):
            return None
        shifted, by = node["args"] if is_call else (node["a"], node["b"])
        if by.kind not in ("IntImm", "UIntImm") or (not is_call and by["value"].bit_count() != 1):
            return None
        amount = by["value"] if is_call else by["value"].bit_length() - 1
        if not 0 <= amount <= self._types[shifted][1] - bits:
            return None
        value = self._of(shifted, scope)
        return None if isinstance(value, _Place) else self._priced(value >> amount)

    def _combined(self, kind: str, a: Pixel, b: Pixel, types: tuple[Type, Type]) -> Pixel:
        if kind == "Add":
            return a + b
        if kind == "Sub":
            return a - b
        if kind == "Mul":
            return a * _known(b) if b.kind == "constant" else b * _known(a)
        if kind in ("Min", "Max") and b == constant(_range(types[0])[kind == "Min"]):
            return a  # its type's own end
        a, b = (self._plain(one, own) for one, own in zip((a, b), types, strict=True))
        if kind == "Div":
            return divided(a, _known(b))
        return minimum(a, b) if kind == "Min" else maximum(a, b)

    def _plain(self, value: Pixel, kind: Type) -> Pixel:
        """``value``, which a variable of the type ``kind`` holds as it is."""
        low, high = _range(kind)
        if not low <= value.low <= value.high <= high:
            raise NotAStencilError(
                f"a value of {kind[0]}{kind[1]} may reach from {value.low} to {value.high}"
            )
        return value

    def _number(self, value: Pixel | _Place) -> Pixel:
        return value if isinstance(value, Pixel) else constant(self._integer(value))

    def _integer(self, value: Pixel | _Place) -> int:
        if isinstance(value, Pixel) or value.terms:
            raise NotAStencilError("it computes with coordinates")
        return value.offset

    def _place(self, value: Pixel | _Place) -> _Place:
        if isinstance(value, Pixel):
            raise NotAStencilError("a coordinate depends on a pixel")
        return value


_BOUNDARY_CONDITION = re.compile("mirror_interior|mirror_image|repeat_image|constant_exterior")
"""The Funcs of Halide's BoundaryConditions are called so, whatever their users wrote."""
_WRITTEN: Mapping[str, str] = {
    "Select": "select()",
    "Reinterpret": "reinterpret()",
    "FloatImm": "a float",
    "Mod": "%",
    "EQ": "==",
    "NE": "!=",
    "LT": "<",
    "LE": "<=",
    "GT": ">",
    "GE": ">=",
    "And": "&&",
    "Or": "||",
    "Not": "!",
}
"""Kinds of expressions as people write them."""
_BINARY = frozenset(("Add", "Sub", "Mul", "Div", "Min", "Max"))


def _is_clamped(place: _Place) -> bool:
    return bool(place.at_least or place.at_most)


def _last(least: str, extent: str) -> _Place:
    """The last coordinate of an input, by the names of its first and of its extent."""
    return _Place(tuple(sorted([(least, 1), (extent, 1)])), -1)


def _axis(place: _Place) -> int | None:
    """The dimension along which ``place`` moves."""
    names = [name for name, _ in place.terms]
    return _AXES.index(names[0]) if len(names) == 1 and names[0] in _AXES else None


def _pixel(name: str, places: Sequence[_Place], known_as: str) -> Pixel:
    """The pixel of the image ``name``, which expressions know as ``known_as``."""
    steps, kinds = [], set()
    for number, place in enumerate(places[:2]):
        if _axis(place) != number:
            raise NotAStencilError("it reads other pixels than those around the output's")
        ((_, step),) = place.terms
        steps.append(step)
        bounds = {place.at_least, place.at_most}
        is_inside = 0 <= place.offset < step
        if bounds != {name} and not (bounds == {""} or (bounds <= {name, ""} and is_inside)):
            raise NotAStencilError("its edges do not continue as the pixels at them (repeat_edge)")
        if not is_inside:
            kinds.add(bounds == {""})
    across, down, *planes = places
    plane = _plane(*planes) if planes else None
    if steps[1] != 1 or steps[0] < 1 or (steps[0] > 1 and not 0 <= across.offset < steps[0]):
        raise NotAStencilError("it reads other pixels than those around the output's")
    if len(kinds) > 1:
        raise NotAStencilError("its edges are repeated along rows or columns only")
    return at(across.offset, down.offset, known_as, steps[0], plane, within=True in kinds)


def _plane(place: _Place) -> int | None:
    """The number of a plane; ``None`` if it is the output's own."""
    if not place.terms and place.offset >= 0:
        return place.offset
    if place.terms == ((_AXES[2], 1),) and not place.offset:
        return None
    raise NotAStencilError("it reads other planes than the output's")


def _range(kind: Type) -> tuple[int, int]:
    code, bits = kind
    if code not in ("int", "uint"):
        raise NotAStencilError(f"it computes with {code}s")
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if code == "int" else (0, (1 << bits) - 1)


def _known(value: Pixel) -> int:
    if value.kind != "constant":
        raise NotAStencilError("it multiplies or divides pixels by one another, or shifts by them")
    return int(value.value)


def _shifted(value: Pixel, bits: int, *, rounds: bool = False) -> Pixel:
    if bits < 0:
        return value * (1 << -bits)
    return ((value + (1 << bits - 1)) >> bits) if rounds and bits else value >> bits


def _scaled(kind: Type, value: Pixel, factor: Pixel, bits: Pixel) -> Pixel:
    if _known(bits) != _PRODUCT_BITS:
        raise NotAStencilError(f"it multiplies and shifts by {_known(bits)} bits")
    return clamped(scaled(value, _known(factor)), *_range(kind))


_CALLS: dict[str, Callable[..., Pixel]] = {
    "abs": lambda kind, a: absolute(a),
    "absd": lambda kind, a, b: absolute(a - b),
    "halving_add": lambda kind, a, b: (a + b) >> 1,
    "rounding_halving_add": lambda kind, a, b: (a + b + 1) >> 1,
    "saturating_add": lambda kind, a, b: clamped(a + b, *_range(kind)),
    "saturating_sub": lambda kind, a, b: clamped(a - b, *_range(kind)),
    "saturating_cast": lambda kind, a: clamped(a, *_range(kind)),
    "shift_left": lambda kind, a, b: _shifted(a, -_known(b)),
    "shift_right": lambda kind, a, b: _shifted(a, _known(b)),
    "rounding_shift_right": lambda kind, a, b: _shifted(a, _known(b), rounds=True),
    "widening_add": lambda kind, a, b: a + b,
    "widening_sub": lambda kind, a, b: a - b,
    "widening_mul": lambda kind, a, b: a * _known(b) if b.kind == "constant" else b * _known(a),
    "widen_right_add": lambda kind, a, b: a + b,
    "widen_right_sub": lambda kind, a, b: a - b,
    "rounding_mul_shift_right": _scaled,
}
"""The calls that are understood: of the result's type and the arguments, what they come to."""
