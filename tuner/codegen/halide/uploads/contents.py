"""The contents that a serialized pipeline may have: its algorithm, and nothing else.

:func:`checked` reads the bytes (``serialized``) and goes through all that outputs are computed
from: every definition and update, and every expression in them. It accepts an algorithm of
integers. The calls that it may make are those to its own Funcs and inputs and those in
``intrinsics``; everything else is refused by name. What Halide's front end ensures of a pipeline is
held here too: types that fit, names that exist, reductions that are declared, no cycle among the
Funcs.

A schedule changes no value, and is not read. Of a Func's wrappers (``in``, ``clone_in``) no
definition knows: they are not among what outputs need. What an author did to the definitions
themselves (``rfactor``) is the algorithm that was uploaded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

from tuner.codegen.halide.uploads.answers import (
    MOST_DIMENSIONS,
    MOST_INPUTS,
    MOST_OUTPUTS,
    MOST_STAGES,
    MOST_UPDATES,
    NotTunableError,
)
from tuner.codegen.halide.uploads.intrinsics import BOOL, INTRINSICS, Type
from tuner.codegen.halide.uploads.rewriting import fold_once, pin
from tuner.codegen.halide.uploads.serialized import (
    SERIALIZATION_VERSION,
    DamagedError,
    Node,
    read,
    written_out,
)

_NAME = re.compile(r"[A-Za-z0-9_.$]{1,200}")
_MOST_BUFFER_BYTES = 16 << 20
_BITS = {"int": (8, 16, 32, 64), "uint": (1, 8, 16, 32, 64)}
_ARITHMETIC = frozenset((name, one.call_type) for name, one in INTRINSICS.items())
_UNNUMBERED = re.compile(r"[$\d]+$")
"""What Halide adds to a name that is taken."""
_INDEX: Type = ("int", 32)
Signature = tuple[tuple[Type, ...], tuple[str, ...]]
"""The types of a Func's values, and its dimensions, innermost first."""
_COMPARISONS = frozenset(("EQ", "NE", "LT", "LE", "GT", "GE"))
BINARY = _COMPARISONS | {"Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "And", "Or"}
_IMMEDIATES = {"IntImm": "int", "UIntImm": "uint", "FloatImm": "float"}
_OF_A_BUFFER = re.compile(r"(.+)\.(min|extent)\.(\d{1,2})")


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
    """A pipeline that was found harmless. ``funcs`` come each after those that it reads;
    ``types`` are those of all expressions in it."""

    funcs: Mapping[str, Func]
    outputs: tuple[str, ...]
    inputs: Mapping[str, tuple[Type, int]]
    tables: Mapping[str, Table]
    types: Mapping[Node, Type]

    @property
    def arguments(self) -> list[str]:
        """The inputs in the order of a call: buffers by name, then scalars."""
        return sorted(self.inputs, key=lambda name: (self.inputs[name][1] < 0, name))


def checked(
    data: bytes, *, folds: bool = False, fixed: Mapping[str, int] = MappingProxyType({})
) -> Contents:
    """The contents of ``data``; with ``folds`` its mirrored coordinates are folded once, and what
    is ``fixed`` has numbers (``rewriting``).

    ``DamagedError`` if Halide did not write that, ``NotTunableError``, which names what and where,
    if it holds what is not accepted.
    """
    root, _ = read(data)
    return _Check(root, folds=folds, fixed=fixed).contents()


def is_parallel(data: bytes) -> bool:
    """Whether the schedule of the pipeline in ``data``, which was checked, has parallel loops."""
    return any(one.kind == "Dim" and one["for_type"] == "parallel" for one in read(data)[1])


def described(data: bytes) -> dict[str, Any]:
    """The JSON form of the ``PipelineDescription`` of ``data``. Raises what ``checked`` does."""
    contents = checked(data)
    wrappers = {f"{name}_im" for name in contents.inputs}
    inputs = [(name, contents.inputs[name]) for name in contents.arguments]
    return {
        "stages": [
            {
                "name": name,
                "dimensions": func.dimensions,
                "types": [f"{code}{bits}" for code, bits in func.types],
                "updates": len(func.updates),
            }
            for name, func in contents.funcs.items()
            if name.partition("$")[0] not in wrappers
        ],
        "inputs": [
            {
                "name": name,
                "type": "{}{}".format(*kind),
                "dimensions": max(rank, 0),
                "is_buffer": rank >= 0,
            }
            for name, (kind, rank) in inputs
        ],
        "outputs": contents.outputs,
    }


def _require(fits: bool, reason: str) -> None:
    if not fits:
        raise DamagedError(reason)


def _name(text: str, what: str) -> str:
    _require(bool(_NAME.fullmatch(text)), f"the name of {what} is {text[:60]!r}")
    return text


def _names(texts: Sequence[str], what: str, most: int) -> tuple[str, ...]:
    _require(len(texts) <= most, f"it has {len(texts)} {what}s, {most} at most")
    _require(len(set(texts)) == len(texts), f"two {what}s have one name")
    return tuple(_name(text, f"a {what}") for text in texts)


def _type(node: Node, where: str) -> Type:
    code, bits = node["code"], node["bits"]
    if code == "handle":
        raise NotTunableError(f"{where} has a pointer; numbers are accepted")
    if code not in _BITS:
        raise NotTunableError(
            f"{where} computes in {code}{bits}; integers are accepted. Write it in fixed point"
        )
    _require(bits in _BITS[code], f"{where} has a type of {bits} bits")
    _require(node["lanes"] == 1, f"{where} has a vector type")
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


def alike(a: Sequence[Node], b: Sequence[Node]) -> bool:
    """Whether two lists of expressions are the same, word for word."""
    return [*map(tuple, map(written_out, a))] == [*map(tuple, map(written_out, b))]


class _Check:
    """One pipeline under examination."""

    def __init__(self, root: Node, *, folds: bool, fixed: Mapping[str, int]) -> None:
        self._root = root
        self._types: dict[Node, Type] = {}
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
        _require(bool(self._outputs), "it has no output")
        for name in self._outputs:
            _require(name in names, f"no stage computes its output {name}")
        self._needed = _needed(dict(zip(names, root["funcs"], strict=True)), self._outputs)
        for func in self._needed:
            _require_plain(func)
            if folds:
                fold_once(func)
        roots = [root for func in self._needed for root in _roots_of(func)]
        pin([node for root in roots for node in expressions_in(root)], fixed)
        self._order = [node for root in roots for node in expressions_in(root)]
        _require_arithmetic([node for node in self._order if node.kind == "Call"])
        self._inputs = self._declared()

    def contents(self) -> Contents:
        """Checks all of it."""
        inputs = self._inputs
        tables = dict(map(_table, self._root["buffers"]))
        _require(len(tables) == len(self._root["buffers"]), "two buffers have one name")
        signatures = {func["name"]: self._signature(func) for func in self._needed}
        self._known = _Known(signatures, inputs, tables)
        for node in reversed(self._order):  # what is in an expression comes before it
            self._expression(node)
        funcs = {
            node["name"]: _Stage(node["name"], *signatures[node["name"]], self._types).func(node)
            for node in self._needed
        }
        return Contents(_in_order(funcs, self._outputs), self._outputs, inputs, tables, self._types)

    def _signature(self, func: Node) -> Signature:
        where = f"its stage {func['name']}"
        types = tuple(_type(node, where) for node in func["output_types"])
        _require(0 < len(types) <= MOST_OUTPUTS, f"{where} has {len(types)} values")
        return types, _names(func["args"], f"dimension of {where}", MOST_DIMENSIONS)

    def _declared(self) -> dict[str, tuple[Type, int]]:
        found: dict[str, tuple[Type, int]] = {}
        # Schedules refer to the buffers of outputs (``g.output_buffer().dim(0).extent()``).
        own = {name for func in self._root["funcs"] for name in func["output_buffers_names"]}
        nodes = [one for one in self._root["external_parameters"] if one["name"] not in own]
        _names([node["name"] for node in nodes], "input", MOST_INPUTS)
        for node in nodes:
            name, rank = node["name"], node["dimensions"]
            _require(0 <= rank <= MOST_DIMENSIONS, f"its input {name} has {rank} dimensions")
            _require(node["is_buffer"] or rank == 0, f"its scalar {name} has {rank} dimensions")
            kind = _type(node["type"], f"its input {name}")
            found[name] = (kind, rank if node["is_buffer"] else -1)
        return found

    def _expression(self, node: Node) -> None:
        """Finds the type of an expression; other nodes are checked elsewhere."""
        if (code := _IMMEDIATES.get(node.kind)) is not None:
            self._types[node] = _immediate(node, code)
        elif node.kind in ("Cast", "Reinterpret"):
            self._types[node] = self._converted(node)
        elif node.kind in BINARY:
            self._types[node] = self._binary(node)
        elif node.kind == "Not":
            _require(
                self._of(node["a"], node) == BOOL,
                f"{node.where} negates a value that is not a condition",
            )
            self._types[node] = BOOL
        elif node.kind == "Select":
            parts = [self._of(part, node) for part in parts_of(node)]
            fits = parts[0] == BOOL and parts[1] == parts[2]
            _require(fits, f"{node.where} selects between two types")
            self._types[node] = parts[1]
        elif node.kind == "Let":
            self._of(node["value"], node)
            self._types[node] = self._of(node["body"], node)
        elif node.kind == "Variable":
            self._types[node] = self._variable(node)
        elif node.kind == "Call":
            self._types[node] = self._call(node)

    def _of(self, node: Node, user: Node) -> Type:
        _require(node in self._types, f"{user.where} uses a {node.kind}, which is not a number")
        return self._types[node]

    def _converted(self, node: Node) -> Type:
        kind, value = _type(node["type"], node.where), self._of(node["value"], node)
        fits = node.kind == "Cast" or (kind[1] == value[1] and BOOL not in (kind, value))
        _require(fits, f"{node.where} reinterprets {value[1]} bits as {kind[1]}")
        return kind

    def _binary(self, node: Node) -> Type:
        a, b = self._of(node["a"], node), self._of(node["b"], node)
        _require(a == b, f"{node.where} has a {node.kind} of two types")
        if node.kind in ("And", "Or"):
            _require(
                a == BOOL, f"{node.where} has an {node.kind} of a value that is not a condition"
            )
        elif node.kind not in _COMPARISONS:
            _require(a != BOOL, f"{node.where} has a {node.kind} of conditions")
        return BOOL if node.kind in _COMPARISONS else a

    def _variable(self, node: Node) -> Type:
        name, param, kind = node["name"], node["param_name"], _type(node["type"], node.where)
        _name(name, f"a variable in {node.where}")
        if param or node["image_name"]:
            self._known.require(name, param, node["image_name"], kind, node.where)
        return kind

    def _call(self, node: Node) -> Type:
        name, kind = node["name"], _type(node["type"], node.where)
        if not is_read(node):
            types = [self._of(one, node) for one in node["args"]]
            fits = INTRINSICS[name].type_of(types, kind) == kind
            _require(fits, f"{node.where} calls {name} with types it does not take")
            return kind
        is_func = node["call_type"] == "Halide"
        fits = self._known.is_value(node, kind) if is_func else self._known.is_element(node, kind)
        _require(fits, f"{node.where} calls {name[:60]!r}, which is nothing in it")
        _require(
            all(self._of(one, node) == _INDEX for one in node["args"]),
            f"{node.where} reads {name} at an index that is not an int32",
        )
        return kind


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


def _immediate(node: Node, code: str) -> Type:
    kind = _type(node["type"], node.where)
    _require(kind[0] == code, f"{node.where}: a number")
    value, bits = node["value"], kind[1]
    if code == "int":
        _require(
            -(1 << bits - 1) <= value < 1 << bits - 1, f"{node.where} has {value} of {bits} bits"
        )
    else:
        _require(value < 1 << bits, f"{node.where} has {value} of {bits} bits")
    return kind


@dataclass(frozen=True)
class _Known:
    """All that expressions may refer to."""

    funcs: Mapping[str, Signature]
    inputs: Mapping[str, tuple[Type, int]]
    tables: Mapping[str, Table]

    def is_value(self, call: Node, kind: Type) -> bool:
        """Whether ``call`` is one to a Func as it is defined."""
        value = call["value_index"]
        if call["name"] not in self.funcs or call["param_name"] or call["image_name"]:
            return False
        types, dimensions = self.funcs[call["name"]]
        fits = 0 <= value < len(types) and types[value] == kind
        return fits and len(call["args"]) == len(dimensions)

    def is_element(self, call: Node, kind: Type) -> bool:
        """Whether ``call`` reads a buffer as it is declared."""
        name = call["name"]
        if call["param_name"] == name and not call["image_name"]:
            return self.inputs.get(name) == (kind, len(call["args"]))
        table = self.tables.get(name) if call["image_name"] == name else None
        fits = table is not None and not call["param_name"]
        return fits and (table.type, len(table.extents)) == (kind, len(call["args"]))  # type: ignore[union-attr]

    def require(self, name: str, param: str, image: str, kind: Type, where: str) -> None:
        """That a variable is a scalar input, or the place or extent of a buffer."""
        if self.inputs.get(param) == (kind, -1) and name == param and not image:
            return
        match = _OF_A_BUFFER.fullmatch(name)
        if match is None:
            raise NotTunableError(
                f"{where} depends on {name}; of buffers their min and extent are accepted"
            )
        owner = param or image
        rank = self.inputs.get(param, (kind, -1))[1]
        if image:
            rank = len(self.tables[image].extents) if image in self.tables else -1
        fits = match[1] == owner and not (param and image) and kind == _INDEX
        _require(
            fits and int(match[3]) < rank, f"{where} depends on {name}, which is nothing in it"
        )


@dataclass(frozen=True)
class _Stage:
    """A Func under examination, all expressions of which have types."""

    name: str
    types: tuple[Type, ...]
    dimensions: tuple[str, ...]
    of: Mapping[Node, Type]

    def func(self, node: Node) -> Func:
        definition = node["init_def"]
        _require(definition["is_init"], f"{self} has no definition")
        values = self._values(definition)
        places = definition["args"]
        fits = len(places) == len(self.dimensions) and all(
            map(is_variable, places, self.dimensions)
        )
        _require(fits, f"{self} is defined at other places")
        _require(not definition["stage_schedule"]["rvars"], f"the definition of {self} reduces")
        _require(is_true(definition["predicate"]), f"the definition of {self} has a condition")
        for value in (*values, *definition["args"]):
            self._require_scope(value, self.dimensions)
        _require(len(node["updates"]) <= MOST_UPDATES, f"{self} has {len(node['updates'])} updates")
        updates = tuple(self._update(update) for update in node["updates"])
        return Func(self.name, self.dimensions, self.types, values, updates)

    def __str__(self) -> str:
        return f"its stage {self.name}"

    def _values(self, definition: Node) -> tuple[Node, ...]:
        values = definition["values"]
        fits = tuple(self.of.get(value) for value in values) == self.types
        _require(fits, f"{self} has values of other types than its own")
        return tuple(values)

    def _update(self, node: Node) -> Update:
        _require(not node["is_init"], f"{self} is defined twice")
        values, places = self._values(node), node["args"]
        _require(len(places) == len(self.dimensions), f"{self} is updated at other places")
        _require(all(self.of.get(p) == _INDEX for p in places), f"{self} is updated at no int32")
        rvars = node["stage_schedule"]["rvars"]
        names = _names([one["var"] for one in rvars], f"reduction of {self}", MOST_DIMENSIONS)
        for one in rvars:
            for bound in (one["min"], one["extent"]):
                _require(self.of.get(bound) == _INDEX, f"{self} reduces over no int32")
                self._require_scope(bound, ())
                calls = any(part.kind == "Call" and is_read(part) for part in expressions_in(bound))
                _require(not calls, f"{self} reduces as far as values say")
        pure = {
            dimension
            for dimension, place in zip(self.dimensions, places, strict=True)
            if is_variable(place, dimension)
        }
        _require(self.of.get(node["predicate"]) == BOOL, f"{self} has a condition that is none")
        for expression in (*values, *places, node["predicate"]):
            self._require_scope(expression, (*pure, *names))
            self._require_own(expression, pure)
        ranges = tuple((one["var"], one["min"], one["extent"]) for one in rvars)
        return Update(tuple(places), values, node["predicate"], ranges)

    def _require_own(self, expression: Node, pure: set[str]) -> None:
        """That a Func reads itself along its pure dimensions where it is written only."""
        for node in expressions_in(expression):
            if is_call_to_func(node) and node["name"] == self.name:
                for dimension, index in zip(self.dimensions, node["args"], strict=True):
                    stays = is_variable(index, dimension)
                    _require(stays or dimension not in pure, f"{self} reads itself elsewhere")

    def _require_scope(self, root: Node, variables: Sequence[str]) -> None:
        """That each variable in ``root`` is one of those, or of a Let around it."""
        waiting = [(root, dict.fromkeys(variables, _INDEX))]
        while waiting:
            node, scope = waiting.pop()
            if node.kind == "Let":
                name, value = _name(node["name"], f"a Let in {self}"), node["value"]
                waiting += [(value, scope), (node["body"], {**scope, name: self.of[value]})]
                continue
            waiting += [(part, scope) for part in parts_of(node)]
            if node.kind != "Variable" or node["param_name"] or node["image_name"]:
                continue
            name = node["name"]
            _require(name in scope, f"{self} depends on {name}, which is nothing in it")
            _require(scope[name] == self.of[node], f"{self} takes {name} for another type")


def _table(node: Node) -> tuple[str, Table]:
    name = _name(node["name"], "a buffer")
    where = f"its buffer {name}"
    kind, rank, dims = _type(node["type"], where), node["dimensions"], node["dims"]
    _require(node["defined"] and 0 <= rank <= MOST_DIMENSIONS, f"{where} is damaged")
    _require(len(dims) == rank, f"{where} has {len(dims)} of {rank} dimensions")
    extents = tuple(int(dim["extent"]) for dim in dims)
    _require(all(0 < extent < 1 << 24 for extent in extents), f"{where} is empty")
    item_bytes = (kind[1] + 7) // 8
    _require(prod(extents) * item_bytes == len(node["data"]), f"{where} has other data")
    _require(len(node["data"]) <= _MOST_BUFFER_BYTES, f"{where} has more than 16 MB")
    mins = tuple(int(dim["min"]) for dim in dims)
    _require(all(abs(least) < 1 << 30 for least in mins), f"{where} begins too far away")
    strides = tuple(int(dim["stride"]) for dim in dims)
    reach = 1
    for stride, extent in sorted(zip(strides, extents, strict=True)):
        _require(stride >= reach or extent == 1, f"the elements of {where} overlap")
        reach = max(reach, stride * (extent - 1) + 1)
    _require(reach * item_bytes <= len(node["data"]), f"{where} has other data")
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


def placing(contents: Contents) -> frozenset[str]:
    """The variables of scalar inputs and of buffers' ends that decide which elements are read or
    stored, and how often: they are in indices, in bounds and conditions of reductions, or in what
    these are made of."""
    waiting: list[Node] = []
    for func in contents.funcs.values():
        for root in definitions_of(func):
            for node in expressions_in(root):
                if node.kind == "Let":  # its name may be in an index
                    waiting.append(node["value"])
                elif node.kind == "Call" and is_read(node):
                    waiting += node["args"]
        for update in func.updates:
            waiting += (*update.places, update.predicate)
            waiting += (bound for _, *bounds in update.rvars for bound in bounds)
    found, seen = set[str](), set[str]()
    while waiting:
        for node in expressions_in(waiting.pop()):
            if node.kind == "Variable" and node["param_name"]:
                found.add(node["name"])
            elif is_call_to_func(node) and node["name"] not in seen:
                seen.add(node["name"])
                waiting += definitions_of(contents.funcs[node["name"]])
    return frozenset(found)


def asked(contents: Contents) -> dict[str, set[int]]:
    """The dimensions of each input of which a definition or the bounds of a reduction ask where
    they begin or how long they are."""
    found: dict[str, set[int]] = {}
    for func in contents.funcs.values():
        bounds = (bound for update in func.updates for _, *ends in update.rvars for bound in ends)
        for root in (*definitions_of(func), *bounds):
            for node in expressions_in(root):
                is_end = node.kind == "Variable" and node["param_name"] != node["name"]
                if is_end and node["param_name"]:
                    found.setdefault(node["param_name"], set()).add(
                        int(node["name"].rpartition(".")[2])
                    )
    return found


def bounding(contents: Contents) -> dict[str, set[str]]:
    """The scalar inputs that values are compared with by a minimum or a maximum, and with which
    (``Min``, ``Max``): bounds of a clamp, for one."""
    found: dict[str, set[str]] = {}
    roots = (root for func in contents.funcs.values() for root in definitions_of(func))
    for node in (node for root in roots for node in expressions_in(root)):
        for part in parts_of(node) if node.kind in ("Min", "Max") else ():
            while part.kind == "Cast":
                (part,) = parts_of(part)
            if part.kind == "Variable" and part["param_name"]:
                found.setdefault(part["param_name"], set()).add(node.kind)
    return found


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
        _require(
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
            _require(name not in within, f"its stages read one another in a circle: {name}")
            within.add(name)
            waiting.append((name, True))
            waiting += [(one, False) for one in reversed(needs[name])]
    return order
