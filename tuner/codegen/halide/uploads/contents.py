"""The contents that a serialized pipeline may have: its algorithm, and nothing else.

:func:`checked` reads the bytes (``serialized``) and goes through all that outputs are computed
from: every definition and update. The calls that they may make are those to its own Funcs and
inputs and those in ``intrinsics``; everything else is refused by name. What Halide's front end
ensures of a pipeline is held here too: names that exist, reductions that are declared, no cycle
among the Funcs; and where the expressions are read (``program``), types that fit.

A schedule changes no value, and is not read. Of a Func's wrappers (``in``, ``clone_in``) no
definition knows: they are not among what outputs need. What an author did to the definitions
themselves (``rfactor``) is the algorithm that was uploaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tuner.codegen.halide.uploads.answers import (
    MOST_DIMENSIONS,
    MOST_INPUTS,
    MOST_OUTPUTS,
    MOST_STAGES,
    MOST_UPDATES,
    NotTunableError,
)
from tuner.codegen.halide.uploads.intrinsics import INTRINSICS, Type
from tuner.codegen.halide.uploads.serialized import (
    SERIALIZATION_VERSION,
    DamagedError,
    Node,
    read,
)

_NAME = re.compile(r"[A-Za-z0-9_.$]{1,200}")
_MOST_BUFFER_BYTES = 16 << 20
_BITS = {"int": (8, 16, 32, 64), "uint": (1, 8, 16, 32, 64)}
_ARITHMETIC = frozenset((name, one.call_type) for name, one in INTRINSICS.items())
_UNNUMBERED = re.compile(r"[$\d]+$")
"""What Halide adds to a name that is taken."""


@dataclass(frozen=True)
class Update:
    """An update definition. ``rvars`` are its reduction variables, outermost last, each with its
    least value and extent as expressions."""

    places: tuple[Node, ...]
    values: tuple[Node, ...]
    predicate: Node
    rvars: tuple[tuple[str, Node, Node], ...]


@dataclass(frozen=True)
class Func:
    """A stage: its dimensions, innermost first, the types of its values, and its definitions."""

    name: str
    dimensions: tuple[str, ...]
    types: tuple[Type, ...]
    values: tuple[Node, ...]
    updates: tuple[Update, ...]


@dataclass(frozen=True)
class Table:
    """A constant buffer that is part of the bytes; ``mins`` and ``extents`` innermost first."""

    type: Type
    mins: tuple[int, ...]
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    data: bytes


@dataclass(frozen=True)
class Contents:
    """A pipeline that was found harmless. ``funcs`` come each after those that it reads.

    It is read otherwise than it was written, with the same values: with ``folds`` its mirrored
    coordinates are folded once (``rewriting``), and what is ``fixed`` has numbers: scalars, by
    name, and ends of buffers, such as ``image.extent.0``. How far what depends on them goes is then
    known.
    """

    funcs: Mapping[str, Func]
    outputs: tuple[str, ...]
    inputs: Mapping[str, tuple[Type, int]]
    tables: Mapping[str, Table]
    folds: bool = False
    fixed: Mapping[str, int] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        """The inputs in the order of a call: buffers by name, then scalars."""
        return sorted(self.inputs, key=lambda name: (self.inputs[name][1] < 0, name))

    def wrapped(self, name: str) -> str:
        """The input around which Halide puts a Func by itself; empty for any other Func."""
        plain = unnumbered(name).removesuffix("_im")
        return plain if plain in self.inputs and plain != unnumbered(name) else ""


def unnumbered(name: str) -> str:
    """``name`` without the numbers by which Halide tells namesakes apart."""
    return re.sub(r"\$\d+", "", name)


def checked(data: bytes, *, folds: bool = False) -> Contents:
    """The contents of ``data``, to be read with ``folds`` or without.

    ``DamagedError`` if Halide did not write that, ``NotTunableError``, which names what and where,
    if it holds what is not accepted.
    """
    root, _ = read(data)
    return replace(_Check(root).contents(), folds=folds)


def is_parallel(data: bytes) -> bool:
    """Whether the schedule of the pipeline in ``data``, which was checked, has parallel loops."""
    return any(one.kind == "Dim" and one["for_type"] == "parallel" for one in read(data)[1])


def require(fits: bool, reason: str) -> None:
    """Raises ``DamagedError`` with the reason unless it ``fits``."""
    if not fits:
        raise DamagedError(reason)


def _name(text: str, what: str) -> str:
    require(bool(_NAME.fullmatch(text)), f"the name of {what} is {text[:60]!r}")
    return text


def _names(texts: Sequence[str], what: str, most: int) -> tuple[str, ...]:
    require(len(texts) <= most, f"it has {len(texts)} {what}s, {most} at most")
    require(len(set(texts)) == len(texts), f"two {what}s have one name")
    return tuple(_name(text, f"a {what}") for text in texts)


def type_in(node: Node, where: str) -> Type:
    """The type that ``node`` says; it is refused if it is none of integers."""
    code, bits = node["code"], node["bits"]
    if code == "handle":
        raise NotTunableError(f"{where} has a pointer; numbers are accepted")
    if code not in _BITS:
        raise NotTunableError(
            f"{where} computes in {code}{bits}; integers are accepted. Write it in fixed point"
        )
    require(bits in _BITS[code], f"{where} has a type of {bits} bits")
    require(node["lanes"] == 1, f"{where} has a vector type")
    return code, bits


def expressions_in(root: Node) -> Iterator[Node]:
    """All expressions in ``root``, itself first and each before those in it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(parts_of(node))


def is_read(call: Node) -> bool:
    """Whether a call is one to a Func, an input or a table."""
    return call["call_type"] in ("Halide", "Image")


def is_call_to_func(node: Node) -> bool:
    """Whether an expression is the value of a Func somewhere."""
    return node.kind == "Call" and bool(node["call_type"] == "Halide")


def is_true(node: Node) -> bool:
    """Whether a predicate always holds, as it does where no condition was written."""
    return node.kind == "UIntImm" and bool(node["value"] == 1)


def is_variable(node: Node, name: str) -> bool:
    """Whether an expression is the loop variable of that name."""
    is_input = node.kind == "Variable" and (node["param_name"] or node["image_name"])
    return bool(node.kind == "Variable" and node["name"] == name and not is_input)


def parts_of(node: Node) -> list[Node]:
    """The expressions that the expression ``node`` is made of."""
    parts: list[Node] = []
    for name, value in node.fields.items():
        if isinstance(value, tuple):
            parts += value
        elif isinstance(value, Node) and name != "type":
            parts.append(value)
    return parts


class _Check:
    """One pipeline under examination."""

    def __init__(self, root: Node) -> None:
        self._root = root
        version = root["serialization_version"]
        if version != SERIALIZATION_VERSION:
            written = root["halide_version"][:20]
            raise DamagedError(
                f"it is of the form {version[:20]!r} of Halide {written!r}, not of "
                f"{SERIALIZATION_VERSION}, which Halide 21.0 writes"
            )
        if root["requirements"]:
            raise NotTunableError("it has requirements (add_requirement), which end the program")
        names = _names([func["name"] for func in root["funcs"]], "stage", MOST_STAGES)
        self._outputs = _names(root["output_names"], "output", MOST_OUTPUTS)
        require(bool(self._outputs), "it has no output")
        for name in self._outputs:
            require(name in names, f"no stage computes its output {name}")
        self._needed = _needed(dict(zip(names, root["funcs"], strict=True)), self._outputs)
        for func in self._needed:
            _require_plain(func)
        roots = [root for func in self._needed for root in _roots_of(func)]
        nodes = [node for root in roots for node in expressions_in(root)]
        _require_arithmetic([node for node in nodes if node.kind == "Call"])

    def contents(self) -> Contents:
        """Checks all of it."""
        inputs, tables = self._declared(), dict(map(_table, self._root["buffers"]))
        require(len(tables) == len(self._root["buffers"]), "two buffers have one name")
        funcs = {node["name"]: _func(node) for node in self._needed}
        return Contents(_in_order(funcs, self._outputs), self._outputs, inputs, tables)

    def _declared(self) -> dict[str, tuple[Type, int]]:
        found: dict[str, tuple[Type, int]] = {}
        # Schedules refer to the buffers of outputs (``g.output_buffer().dim(0).extent()``).
        own = {name for func in self._root["funcs"] for name in func["output_buffers_names"]}
        nodes = [one for one in self._root["external_parameters"] if one["name"] not in own]
        _names([node["name"] for node in nodes], "input", MOST_INPUTS)
        for node in nodes:
            name, rank = node["name"], node["dimensions"]
            require(0 <= rank <= MOST_DIMENSIONS, f"its input {name} has {rank} dimensions")
            require(node["is_buffer"] or rank == 0, f"its scalar {name} has {rank} dimensions")
            kind = type_in(node["type"], f"its input {name}")
            found[name] = (kind, rank if node["is_buffer"] else -1)
        return found


def _require_plain(func: Node) -> None:
    """That a Func is defined here, and does nothing but compute."""
    if func["extern_function_name"] or func["extern_arguments"]:
        raise NotTunableError(
            f"{func.where} is code from elsewhere (define_extern "
            f"{func['extern_function_name'][:60]!r})"
        )
    if func["debug_file"]:
        raise NotTunableError(f"{func.where} writes a file (debug_to_file)")


def _require_arithmetic(calls: Sequence[Node]) -> None:
    """That all calls are of those that are accepted, by name and kind."""
    refused = [
        call
        for call in calls
        if not is_read(call) and (call["name"], call["call_type"]) not in _ARITHMETIC
    ]
    if refused:  # code of the host, rather than what Halide wraps it in
        call = min(refused, key=lambda one: "Extern" not in one["call_type"])
        raise NotTunableError(
            f"{call.where} calls {call['name'][:60]} ({call['call_type']}), which is not of "
            "Halide's arithmetic"
        )


def _func(node: Node) -> Func:
    where, definition = f"its stage {node['name']}", node["init_def"]
    types = tuple(type_in(one, where) for one in node["output_types"])
    require(0 < len(types) <= MOST_OUTPUTS, f"{where} has {len(types)} values")
    dimensions = _names(node["args"], f"dimension of {where}", MOST_DIMENSIONS)
    require(definition["is_init"], f"{where} has no definition")
    require(len(definition["values"]) == len(types), f"{where} has a value too many or too few")
    places = definition["args"]
    fits = len(places) == len(dimensions) and all(map(is_variable, places, dimensions))
    require(fits, f"{where} is defined at other places")
    require(not definition["stage_schedule"]["rvars"], f"the definition of {where} reduces")
    require(is_true(definition["predicate"]), f"the definition of {where} has a condition")
    require(len(node["updates"]) <= MOST_UPDATES, f"{where} has {len(node['updates'])} updates")
    updates = []
    for one in node["updates"]:
        require(not one["is_init"], f"{where} is defined twice")
        require(len(one["values"]) == len(types), f"{where} has a value too many or too few")
        require(len(one["args"]) == len(dimensions), f"{where} is updated at other places")
        rvars = one["stage_schedule"]["rvars"]
        _names([each["var"] for each in rvars], f"reduction of {where}", MOST_DIMENSIONS)
        ranges = tuple((each["var"], each["min"], each["extent"]) for each in rvars)
        updates.append(Update(one["args"], one["values"], one["predicate"], ranges))
    return Func(node["name"], dimensions, types, definition["values"], tuple(updates))


def _table(node: Node) -> tuple[str, Table]:
    name = _name(node["name"], "a buffer")
    where = f"its buffer {name}"
    kind, rank, dims = type_in(node["type"], where), node["dimensions"], node["dims"]
    require(node["defined"] and 0 <= rank <= MOST_DIMENSIONS, f"{where} is damaged")
    require(len(dims) == rank, f"{where} has {len(dims)} of {rank} dimensions")
    extents = tuple(int(dim["extent"]) for dim in dims)
    require(all(0 < extent < 1 << 24 for extent in extents), f"{where} is empty")
    item_bytes = (kind[1] + 7) // 8
    require(prod(extents) * item_bytes == len(node["data"]), f"{where} has other data")
    require(len(node["data"]) <= _MOST_BUFFER_BYTES, f"{where} has more than 16 MB")
    mins = tuple(int(dim["min"]) for dim in dims)
    require(all(abs(least) < 1 << 30 for least in mins), f"{where} begins too far away")
    strides = tuple(int(dim["stride"]) for dim in dims)
    reach = 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):
        require(stride >= reach or extent == 1, f"the elements of {where} overlap")
        reach = max(reach, stride * (extent - 1) + 1)
    require(reach * item_bytes <= len(node["data"]), f"{where} has other data")
    return name, Table(kind, mins, extents, strides, bytes(node["data"]))


def _roots_of(func: Node) -> Iterator[Node]:
    """All expressions that a Func is made of."""
    for one in (func["init_def"], *func["updates"]):
        yield from (*one["values"], *one["args"], one["predicate"])
        for rvar in one["stage_schedule"]["rvars"]:
            yield from (rvar["min"], rvar["extent"])


def _needed(funcs: Mapping[str, Node], outputs: Sequence[str]) -> list[Node]:
    """Those that the values of outputs need, in the order in which they are written."""
    found, waiting = set[str](), list(outputs)
    while waiting:
        name = waiting.pop()
        if name in funcs and name not in found:
            found.add(name)
            nodes = (node for root in _roots_of(funcs[name]) for node in expressions_in(root))
            waiting += (node["name"] for node in nodes if is_call_to_func(node))
    return [func for name, func in funcs.items() if name in found]


def _callees(func: Func) -> list[str]:
    """The other Funcs that a Func reads, in the order in which Halide visits them."""
    nodes = (node for root in definitions_of(func) for node in expressions_in(root))
    names = dict.fromkeys(node["name"] for node in nodes if is_call_to_func(node))
    names.pop(func.name, None)
    return sorted(names, key=lambda name: _UNNUMBERED.sub("", name))


def definitions_of(func: Func) -> Iterator[Node]:
    """All expressions that a Func is defined by."""
    yield from func.values
    for update in func.updates:
        yield from (*update.places, *update.values, update.predicate)


def _in_order(funcs: Mapping[str, Func], outputs: Sequence[str]) -> dict[str, Func]:
    """The Funcs, each after those that it reads, in the order in which Halide computes them; a
    definition may not read its own Func."""
    return _ordered(funcs, outputs, _callees)


def by_name(contents: Contents) -> list[Func]:
    """The Funcs, each after those that it reads, in an order that does not depend on how their
    definitions are spelled."""
    found = _ordered(contents.funcs, contents.outputs, lambda func: sorted(_callees(func)))
    return [*found.values()]


def _ordered(
    funcs: Mapping[str, Func],
    outputs: Sequence[str],
    callees: Callable[[Func], list[str]],
) -> dict[str, Func]:
    for func in funcs.values():
        own = (node for value in func.values for node in expressions_in(value))
        require(
            not any(is_call_to_func(node) and node["name"] == func.name for node in own),
            f"the definition of its stage {func.name} reads itself",
        )
    order: dict[str, Func] = {}
    needs = {name: callees(func) for name, func in funcs.items()}
    within = set[str]()
    waiting = [(output, False) for output in reversed(outputs)]
    while waiting:
        name, is_due = waiting.pop()
        if is_due:
            order[name] = funcs[name]
            within.discard(name)
        elif name not in order:
            require(name in funcs, f"its stages read {name[:60]!r}, which is nothing in it")
            require(name not in within, f"its stages read one another in a circle: {name}")
            within.add(name)
            waiting.append((name, True))
            waiting += [(one, False) for one in reversed(needs[name])]
    return order
