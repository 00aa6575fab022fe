"""Reads the bytes of a pipeline without trusting one of them. Halide never does: its reader
follows each offset that it finds.

This one follows none that leaves the buffer, as flatbuffers' own verifier would not, and makes a
tree of :class:`Node` of what it finds. It neither recurses nor follows more tables than the bytes
can have been made of: a table that many others point to is counted each time.

The form is what Halide 21's ``serialize_pipeline`` writes. Facts from the schema that Halide 21.0.0
is built with (``src/halide_ir.fbs``): a field's place in a table is its number there, and a union
takes two, its kind and its value. Tables of what no upload may contain are left out (statements,
loads and vectors exist in lowered code only), and so are fields that say nothing of an algorithm.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_DEPTH = 1000
"""Tables inside one another. Halide follows expressions by recursion: of its stack of 64 MB
(``reader``) 64 kB are left for each, and a few are what it takes."""
MOST_TABLES = 1_000_000
_LEAST_BYTES_A_TABLE = 8
"""The least size of a table: the offset of its vtable, and an offset that leads to it. Nothing
that Halide writes is shared but vtables."""


_NAMED = {"Func": "its stage", "Parameter": "the buffer of"}


class DamagedError(ValueError):
    """The bytes are not what ``serialize_pipeline`` writes; the text says where."""


@dataclass(slots=True, eq=False)
class Node:
    """A table: its ``kind`` and its fields by name. A vector is a tuple; of one whose elements are
    never accepted (``[any]``) only the length is right. Absent fields that are tables, strings or
    vectors are ``None``; numbers have their default, 0. ``where`` says in which part of the
    pipeline it is."""

    kind: str
    where: str
    fields: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


@dataclass(slots=True)
class _Place:
    """Where a table lies, and where it goes: field or element ``key`` of ``holder``."""

    kind: str
    position: int
    holder: dict[str, Any] | list[Any]
    key: Any
    depth: int
    where: str


def read(data: bytes) -> tuple[Node, list[Node]]:
    """The pipeline in ``data``, and all tables in an order in which each precedes those in it.

    ``DamagedError`` if that is not what they hold.
    """
    buffer = _Buffer(data)
    found: list[Any] = [None]
    order: list[Node] = []
    waiting = [_Place("Pipeline", buffer.reference(0), found, 0, 0, "it")]
    most = min(MOST_TABLES, len(data) // _LEAST_BYTES_A_TABLE)
    while waiting:
        place = waiting.pop()
        if place.depth > MOST_DEPTH:
            raise DamagedError(f"it nests more than {MOST_DEPTH} deep")
        if len(order) >= most:
            raise DamagedError(f"it unfolds to more than {most} tables")
        node = Node(place.kind, place.where)
        order.append(node)
        place.holder[place.key] = node
        table = _Table(buffer, place.position)
        for one in TABLES[place.kind]:
            value = _value(buffer, table, node, one, place.depth + 1, waiting)
            if value is None and one.is_required:
                raise DamagedError(f"a {place.kind} lacks its {one.name}")
            node.fields[one.name] = value
            if one.name == "name" and place.kind in _NAMED and isinstance(value, str):
                node.where = f"{_NAMED[place.kind]} {value[:60]}"  # it precedes what is in them
    for node in order:
        for name, value in node.fields.items():
            if isinstance(value, list):
                node.fields[name] = tuple(value)
    return found[0], order


class _Buffer:
    """The bytes, and reads of them that end inside."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def scalar(self, form: str, position: int) -> Any:
        size = struct.calcsize(form)
        if not 0 <= position <= len(self.data) - size:
            raise DamagedError("an offset leads out of it")
        if position % size:
            raise DamagedError("an offset leads between two values")
        return struct.unpack_from(form, self.data, position)[0]

    def reference(self, position: int) -> int:
        """Where the offset at ``position`` leads."""
        return int(position + self.scalar("<I", position))

    def vector(self, position: int, size: int) -> tuple[int, int]:
        """Position and number of the elements, each ``size`` bytes, of the vector there."""
        count = int(self.scalar("<I", position))
        if position + 4 + count * size > len(self.data):
            raise DamagedError("a vector is longer than it")
        return position + 4, count

    def string(self, position: int) -> str:
        start, count = self.vector(position, 1)
        if self.data[start + count : start + count + 1] != b"\0":
            raise DamagedError("a text has no end")
        return self.data[start : start + count].decode("latin-1")


class _Table:
    """A table's fields by the places that its vtable gives them."""

    def __init__(self, buffer: _Buffer, position: int) -> None:
        self._position = position
        vtable = position - buffer.scalar("<i", position)
        size = buffer.scalar("<H", vtable)
        self._size = buffer.scalar("<H", vtable + 2)
        if size < 4 or size % 2 or vtable + size > len(buffer.data):
            raise DamagedError("a table's list of fields is damaged")
        if self._size < 4 or position + self._size > len(buffer.data):
            raise DamagedError("a table is longer than it")
        self._places = struct.unpack_from(f"<{size // 2 - 2}H", buffer.data, vtable + 4)

    def place(self, number: int, size: int) -> int | None:
        """Where field ``number``, of ``size`` bytes, lies; ``None`` if it is absent."""
        offset = self._places[number] if number < len(self._places) else 0
        if not offset:
            return None
        if not 4 <= offset <= self._size - size:
            raise DamagedError("a field lies outside its table")
        return self._position + offset


def _value(
    buffer: _Buffer,
    table: _Table,
    node: Node,
    one: Field,
    depth: int,
    waiting: list[_Place],
) -> Any:
    """The value of a field. Tables in it are put among ``waiting``, with a stand-in meanwhile."""
    kind = node.kind
    if one.type == "any" and not one.is_vector:
        return None
    if one.is_vector:
        at = table.place(one.number, 4)
        return None if at is None else _elements(buffer, table, node, one, at, depth, waiting)
    if one.type in SCALARS or one.type in ENUMS:
        form = SCALARS.get(one.type, "<B")
        at = table.place(one.number, struct.calcsize(form))
        value = 0 if at is None else buffer.scalar(form, at)
        return _checked(kind, one, value)
    at = table.place(one.number, 4)
    if one.type in UNIONS:
        tag = table.place(one.number - 1, 1)
        member = _member(kind, one, 0 if tag is None else buffer.scalar("<B", tag))
        if (member == "none") != (at is None):
            raise DamagedError(
                f"the {one.name} of a {kind} has a kind and no value, or the reverse"
            )
    else:
        member = one.type
    if at is None:
        return None
    position = buffer.reference(at)
    if one.type == "string":
        return buffer.string(position)
    waiting.append(_Place(member, position, node.fields, one.name, depth, node.where))
    return ...


def _elements(
    buffer: _Buffer,
    table: _Table,
    node: Node,
    one: Field,
    at: int,
    depth: int,
    waiting: list[_Place],
) -> Sequence[Any]:
    kind = node.kind
    if one.type == "uint8":
        start, count = buffer.vector(buffer.reference(at), 1)
        return buffer.data[start : start + count]
    start, count = buffer.vector(buffer.reference(at), 4)
    positions = [buffer.reference(start + 4 * number) for number in range(count)]
    if one.type == "string":
        return tuple(buffer.string(position) for position in positions)
    if one.type not in UNIONS and one.type not in TABLES:
        return (None,) * count
    members = [one.type] * count
    if one.type in UNIONS:
        tags_at = table.place(one.number - 1, 4)
        if tags_at is None:
            raise DamagedError(f"the {one.name} of a {kind} lack their kinds")
        first, tags = buffer.vector(buffer.reference(tags_at), 1)
        if tags != count:
            raise DamagedError(f"the {one.name} of a {kind} are {count}, their kinds {tags}")
        members = [_member(kind, one, buffer.data[first + number]) for number in range(tags)]
    made: list[Any] = [None] * count
    for number, (member, position) in enumerate(zip(members, positions, strict=True)):
        if member == "none":
            raise DamagedError(f"one of the {one.name} of a {kind} is missing")
        waiting.append(_Place(member, position, made, number, depth, node.where))
    return made


def _checked(kind: str, one: Field, value: Any) -> Any:
    """A scalar as Python has it; an enumeration's member by name."""
    if one.type in ENUMS:
        members = ENUMS[one.type]
        if value >= len(members):
            raise DamagedError(f"the {one.name} of a {kind} is number {value} of {len(members)}")
        return members[value]
    if one.type == "bool":
        if value > 1:
            raise DamagedError(f"the {one.name} of a {kind} is {value}, neither 0 nor 1")
        return bool(value)
    return value


def _member(kind: str, one: Field, number: int) -> str:
    """The table that a union's kind stands for."""
    members = UNIONS[one.type]
    if number >= len(members):
        raise DamagedError(f"the {one.name} of a {kind} is of kind {number} of {len(members)}")
    member = members[number]
    if member != "none" and member not in TABLES:
        raise DamagedError(f"the {one.name} of a {kind} is a {member}, which no definition has")
    return member


SERIALIZATION_VERSION = "18.0.1"
"""Halide's own number for this form; its reader refuses any other."""

SCALARS = {
    "bool": "<B",
    "uint8": "<B",
    "int32": "<i",
    "int64": "<q",
    "uint64": "<Q",
    "float64": "<d",
}

ENUMS = {
    name: tuple(members.split())
    for name, members in {
        "ForType": "serial parallel vectorized unrolled extern gpu_block gpu_thread gpu_lane",
        "CallType": "Image Extern ExternCPlusPlus PureExtern Halide Intrinsic PureIntrinsic",
        "TypeCode": "int uint float handle bfloat",
    }.items()
}
"""Members in the order of their numbers; each is one byte."""

_BINARY = "Add Sub Mul Div Mod Min Max EQ NE LT LE GT GE And Or"
_EXPRESSIONS = (
    f"none IntImm UIntImm FloatImm StringImm Cast Reinterpret {_BINARY} Not Select Load Ramp "
    "Broadcast Let Call Variable Shuffle VectorReduce UndefinedExpr"
)
UNIONS = {"Expr": tuple(_EXPRESSIONS.split())}

_TABLES = {
    "UndefinedExpr": "",
    "IntImm": "value int64, type Type",
    "UIntImm": "value uint64, type Type",
    "FloatImm": "value float64, type Type",
    "StringImm": "value string",
    "Cast": "value Expr, type Type",
    "Reinterpret": "value Expr, type Type",
    **dict.fromkeys(_BINARY.split(), "a Expr, b Expr"),
    "Not": "a Expr",
    "Select": "condition Expr, true_value Expr, false_value Expr",
    "Let": "name string, value Expr, body Expr",
    "Call": "name string, args [Expr], call_type CallType, func_index int32, value_index int32,"
    " image_name string, param_name string, type Type",
    "Variable": "name string, type Type, param_name string, image_name string",
    "ReductionVariable": "var string, min Expr, extent Expr",
    "Type": "code TypeCode, bits uint8, lanes int32",
    "Dim": "var string, for_type ForType",
    "StageSchedule": "rvars [ReductionVariable], splits [any], dims [Dim]",
    "Definition": "is_init bool, predicate Expr, values [Expr], args [Expr],"
    " stage_schedule StageSchedule",
    "ExternalParameter": "is_buffer bool, type Type, dimensions int32, name string",
    "BufferDimension": "min int32, extent int32, stride int32",
    "Buffer": "defined bool, name string, type Type, dimensions int32, dims [BufferDimension],"
    " data [uint8]",
    "Func": "name string, origin_name string, output_types [Type], required_types [any],"
    " required_dims int32, args [string], func_schedule? any, init_def Definition,"
    " updates [Definition], debug_file string, output_buffers_names [string],"
    " extern_arguments [any], extern_function_name string",
    "Pipeline": "funcs [Func], output_names [string], requirements [Stmt],"
    " func_names_in_order [string], parameters [any],"
    " external_parameters [ExternalParameter], buffers [Buffer], halide_version string,"
    " serialization_version string",
}
"""Name and type of each field, in order, up to the last that is read; with ``?`` those that may be
absent. ``any`` is not read, of ``[any]`` the elements are counted."""


@dataclass(frozen=True)
class Field:
    """A field: the ``number`` of its place (of the value, for a union), and its type."""

    name: str
    number: int
    type: str
    is_vector: bool
    is_required: bool


def _fields(text: str) -> tuple[Field, ...]:
    fields, number = [], 0
    for part in filter(None, text.split(", ")):
        name, kind = part.split()
        inner = kind.strip("[]")
        is_union = inner in UNIONS or inner == "Stmt"
        place = number + is_union
        fields.append(Field(name.rstrip("?"), place, inner, inner != kind, name[-1] != "?"))
        number = place + 1
    return tuple(fields)


TABLES = {name: _fields(text) for name, text in _TABLES.items()}
