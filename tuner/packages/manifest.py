"""``kernel.toml``: a package in words, checked before anything is built.

:func:`read_manifest` takes the text to a :class:`Manifest`. The models say which keys there are;
what no model can say (names that clash, expressions that fail, knobs that no config sets) is
checked after them. Whatever is wrong, the error names file, line, key, value and what would do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tuner.errors import UserError
from tuner.packages.expressions import Value, arithmetic, condition
from tuner.packages.options import (
    BuildOptions,
    FileName,
    FunctionOptions,
    GeneratorOptions,
    Identifier,
)
from tuner.problem.buffers import BufferSpec
from tuner.problem.objectives import CYCLES, OBJECTIVES, checked_objectives
from tuner.records.tables import Fault, Keys, Strict, read_tables
from tuner.records.tables import fault_at as fault_in_file
from tuner.space import Constraint, Knob, Space

FILE = "kernel.toml"
Integer = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32"]
Dtype = Literal["int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Expression = Annotated[str, Field(max_length=500)]
Shape = Annotated[
    list[int | Expression],
    Field(
        min_length=1,
        max_length=6,
        description="Extents, outermost first as in NumPy: numbers or expressions of parameters.",
    ),
]
_MOST_BUFFERS = 16
_WORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline
    int long register restrict return short signed sizeof static struct switch typedef union
    unsigned void volatile while asm typeof bool true false min max and or not kernel held scratch
    release clamped rounded_shift requantized VECTOR_BYTES CONSTRAINT_VIOLATED OUT_OF_MEMORY
    UNALIGNED_HOST
"""
_RESERVED = frozenset(_WORDS.split())
"""Words of C, of expressions, and of the code around the function."""
_C_TYPE = re.compile(r"(u?int(8|16|32|64|ptr)_t|halide_\w+)")


class ParamTable(Strict):
    """A parameter: an integer that makes workloads of the kernel."""

    default: int
    minimum: int = Field(1, ge=0)
    maximum: int = Field(65536, le=1 << 27)
    multiple: int = Field(1, ge=1)
    is_extent: bool = Field(True, description="false: a setting, fixed when code is made.")
    doc: str = ""


class ArgumentTable(Strict):
    """A buffer that callers pass."""

    name: Identifier
    role: Literal["input", "output"]
    dtype: Dtype
    shape: Shape
    promised: bool = Field(
        True, description="false: a small table; stride and extent promises leave it out."
    )
    mins: list[int] = Field(
        default=[],
        max_length=6,
        description="Coordinates of the first element in the order of the shape; 0 by default.",
    )
    minimum: int | Finite | None = Field(None, description="The least value that callers pass.")
    maximum: int | Finite | None = Field(None, description="The greatest value that callers pass.")

    @property
    def is_bounded(self) -> bool:
        """Whether callers pass less than all values of the dtype; of floats, then, no NaN."""
        return (self.minimum, self.maximum) != (None, None)


class ScalarTable(Strict):
    """A number that callers pass by value."""

    name: Identifier
    dtype: Integer
    value: int = Field(description="The value that code is verified with.")


class DataTable(Strict):
    """A table that callers pass, such as multipliers of a quantization. Workloads do not depend on
    it."""

    name: Identifier
    dtype: Dtype
    shape: Shape
    value: int | Finite | list[int | Finite] | None = Field(
        None, description="The elements that code is verified with."
    )
    file: FileName | None = Field(None, description="The same as raw little-endian elements.")


class KnobTable(Strict):
    """One choice of a config."""

    choices: list[int] | list[str] = Field(min_length=1, max_length=256)
    doc: str = ""
    when: Expression | None = Field(None, description="Active only where this holds.")


class ConstraintTable(Strict):
    """A condition that every config keeps, over knobs and parameters."""

    require: Expression
    reason: str = Field(min_length=1)


class ToleranceTable(Strict):
    """How far from the reference an output of floats may be; the widest counts."""

    ulp: int = Field(0, ge=0, le=1 << 20, description="Steps between representable numbers.")
    absolute: Finite = Field(0.0, ge=0, description="A distance.")
    relative: Finite = Field(0.0, ge=0, le=1, description="A share of the reference.")


class WorkTable(Strict):
    """The least work of a call, for the roofline; each an expression of parameters."""

    macs: Expression | None = Field(None, description="8-bit multiply-accumulates.")
    macs_16: Expression | None = Field(
        None, description="16-bit multiply-accumulates; by 8 bits, half of them."
    )
    macs_32: Expression | None = Field(
        None, description="32-bit multiply-accumulates; by 8 bits, half of them."
    )
    lane_ops: Expression | None = Field(
        None, description="Bytes of vector lanes that other arithmetic touches at least."
    )
    permuted_bytes: Expression | None = Field(
        None, description="The part of lane_ops that only the permute unit does, as look-ups."
    )
    merged_bytes: Expression | None = Field(
        None, description="Bytes of vectors made of two others, as a transpose makes them."
    )


class NumpyReference(Strict):
    """A NumPy function: it takes inputs, data and scalars by name, and parameters, and returns the
    output, or a tuple of the outputs."""

    kind: Literal["numpy"]
    file: FileName = "reference.py"
    function: Identifier = "reference"


class GoldenReference(Strict):
    """Files of inputs and right outputs, as raw little-endian elements: FOLDER/NAME.bin."""

    kind: Literal["golden"]
    folders: list[FileName] = Field(min_length=1, max_length=12)


class GeneratorReference(Strict):
    """The Generator's own algorithm, interpreted without its schedule."""

    kind: Literal["generator"]


Reference = Annotated[
    NumpyReference | GoldenReference | GeneratorReference,
    Field(discriminator="kind"),
]


class Manifest(Strict):
    """A whole ``kernel.toml``."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")
    version: int = Field(ge=1)
    summary: str = Field(min_length=1, max_length=200)
    contracts: list[Literal["none", "host", "stride", "extent", "static"]] = Field(
        min_length=1, description="Promises that callers may make: the code is right under each."
    )
    params: dict[Identifier, ParamTable] = Field(min_length=1, max_length=16)
    arguments: list[ArgumentTable] = Field(min_length=1, max_length=_MOST_BUFFERS)
    scalars: list[ScalarTable] = Field(default=[], max_length=16)
    data: list[DataTable] = Field(default=[], max_length=_MOST_BUFFERS)
    knobs: dict[Identifier, KnobTable] = Field(default={}, max_length=64)
    constraints: list[ConstraintTable] = Field(default=[], max_length=64)
    configs: dict[Literal["default", "baseline"], dict[str, int | str]] = Field(default={})
    tolerance: dict[Identifier, ToleranceTable] = Field(
        default={}, description="By output of floats; without one its values are the reference's."
    )
    objectives: list[str] = Field(
        default=[CYCLES],
        min_length=1,
        description=f"Those of jobs that name none, of {', '.join(OBJECTIVES)}.",
    )
    work: WorkTable = Field(default_factory=lambda: WorkTable.model_validate({}))
    build: BuildOptions
    reference: Reference

    @property
    def defaults(self) -> dict[str, int]:
        """The parameters by default."""
        return {name: param.default for name, param in self.params.items()}

    @property
    def buffers(self) -> list[ArgumentTable | DataTable]:
        """The buffers of a call in order: inputs, data, outputs."""
        inputs = [one for one in self.arguments if one.role == "input"]
        outputs = [one for one in self.arguments if one.role == "output"]
        return [*inputs, *self.data, *outputs]

    @property
    def files(self) -> list[str]:
        """The files of the package that it names, in order; those of variants by knob are found by
        their build."""
        named: list[str] = []
        for table in (self.build, self.reference):
            for key in ("sources", "headers", "template", "file", "program"):
                value = getattr(table, key, None) or ()
                named += [value] if isinstance(value, str) else value
        named += [table.file for table in self.data if table.file is not None]
        if isinstance(self.reference, GoldenReference):
            buffers = [one.name for one in self.buffers]
            named += [f"{at}/{name}.bin" for at in self.reference.folders for name in buffers]
        return list(dict.fromkeys(name for name in named if "{" not in name))

    def space_at(self, params: dict[str, int]) -> Space:
        """The space of the knobs for a workload; ``UserError`` for what cannot be one."""
        knobs = tuple(
            Knob(
                name,
                tuple(table.choices),
                table.doc,
                None if table.when is None else condition(table.when).plain,
            )
            for name, table in self.knobs.items()
        )
        constraints = tuple(
            Constraint(condition(table.require).plain, table.reason) for table in self.constraints
        )
        return Space(self.name, knobs, constraints, dict(params))


def read_manifest(text: str, place: str = FILE) -> Manifest:
    """The manifest in ``text``, which stands in the file ``place``.

    Raises ``UserError`` for the first thing that is wrong.
    """
    manifest = read_tables(Manifest, text, place, _SEE)
    for keys, why, accepted in _faults(manifest):
        raise fault_at(keys, text, place, why, accepted)
    return manifest


def schema() -> dict[str, Any]:
    """The JSON Schema of ``kernel.toml``, for editors."""
    made = Manifest.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


_SEE = "docs/packages.md describes every key"


def _faults(manifest: Manifest) -> Iterator[Fault]:
    """Faults that no model sees, in an order in which a later check may rely on earlier ones."""
    yield from _names(manifest)
    yield from _shapes(manifest)
    yield from _values(manifest)
    yield from _judged(manifest)
    yield from _space(manifest)
    yield from _calls(manifest)


def _names(manifest: Manifest) -> Iterator[Fault]:
    if not any(table.role == "output" for table in manifest.arguments):
        yield ["arguments"], "none has the role output", "at least one output"
    roles = [table.role for table in manifest.arguments]
    if roles != sorted(roles):
        yield ["arguments"], "an input comes after an output", "all inputs, then all outputs"
    if len(manifest.arguments) + len(manifest.data) > _MOST_BUFFERS:
        yield ["arguments"], "too many buffers", f"{_MOST_BUFFERS} with data"
    taken: dict[str, str] = {}
    places: list[tuple[Keys, str]] = [(("params", name), name) for name in manifest.params]
    places += [(("arguments", n, "name"), one.name) for n, one in enumerate(manifest.arguments)]
    places += [(("scalars", n, "name"), one.name) for n, one in enumerate(manifest.scalars)]
    places += [(("data", n, "name"), one.name) for n, one in enumerate(manifest.data)]
    places += [(("knobs", name), name) for name in manifest.knobs]
    for keys, name in places:
        if name in _RESERVED or _C_TYPE.fullmatch(name):
            yield keys, f"'{name}' is a word of C or of the code around the function", "others"
        if name in taken:
            yield keys, f"'{name}' is the name of one of {taken[name]} already", "a name of its own"
        taken[name] = str(keys[0])
    for name, param in manifest.params.items():
        least, most = param.minimum, param.maximum
        if not least <= param.default <= most or param.default % param.multiple:
            yield (
                ["params", name, "default"],
                f"{param.default} is out of its own range",
                f"{least} to {most}, multiples of {param.multiple}",
            )


def _shapes(manifest: Manifest) -> Iterator[Fault]:
    known = ", ".join(manifest.params)
    tables: list[tuple[Keys, ArgumentTable | DataTable]] = [
        *((("arguments", n, "shape"), one) for n, one in enumerate(manifest.arguments)),
        *((("data", n, "shape"), one) for n, one in enumerate(manifest.data)),
    ]
    for keys, table in tables:
        for at, extent in enumerate(table.shape):
            where = f"dimension {at} of {table.name}:"
            try:
                read = arithmetic(str(extent))
                if unknown := sorted(read.names - manifest.params.keys()):
                    yield keys, f"{where} '{extent}' names {unknown[0]}", f"parameters: {known}"
                value = read.value(dict(manifest.defaults))
            except UserError as error:
                yield keys, f"{where} {error.message}", error.accepted
                continue
            if not isinstance(value, int) or value < 1:
                yield keys, f"{where} '{extent}' is {value} by default", "1 or more"
    for name, text in manifest.work:
        if text is not None:
            try:
                arithmetic(text).value(dict(manifest.defaults))
            except UserError as error:
                yield ["work", name], error.message, error.accepted
    for number, one in enumerate(manifest.data):
        if (one.value is None) == (one.file is None):
            yield ["data", number], f"{one.name} needs a value or a file", "one of the two"
    for number, argument in enumerate(manifest.arguments):
        if len(argument.mins) not in (0, len(argument.shape)):
            yield (
                ["arguments", number, "mins"],
                f"{len(argument.mins)} coordinates for {len(argument.shape)} dimensions",
                "one for each",
            )
        least, most = argument.minimum, argument.maximum
        if least is not None and most is not None and least > most:
            yield ["arguments", number, "minimum"], f"{least} is above the maximum", f"up to {most}"


def _values(manifest: Manifest) -> Iterator[Fault]:
    """Numbers that their dtype does not hold."""
    given: list[tuple[Keys, Dtype, float]] = [
        (("scalars", n, "value"), one.dtype, one.value) for n, one in enumerate(manifest.scalars)
    ]
    for n, table in enumerate(manifest.data):
        values = table.value if isinstance(table.value, list) else [table.value or 0]
        given += [(("data", n, "value"), table.dtype, value) for value in values]
    for n, argument in enumerate(manifest.arguments):
        bounds = (("minimum", argument.minimum), ("maximum", argument.maximum))
        given += [
            (("arguments", n, name), argument.dtype, value)
            for name, value in bounds
            if value is not None
        ]
    for keys, dtype, value in given:
        if dtype.startswith("float"):
            continue
        if not isinstance(value, int):
            yield keys, f"{value} does not fit {dtype}", "whole numbers"
            continue
        bits = int(dtype.lstrip("uint"))
        least = 0 if dtype.startswith("u") else -(1 << bits - 1)
        most = least + (1 << bits) - 1
        if not least <= value <= most:
            yield keys, f"{value} does not fit {dtype}", f"{least} to {most}"


def _judged(manifest: Manifest) -> Iterator[Fault]:
    """Tolerances of what has none, and objectives that there are not."""
    floats = [
        one.name
        for one in manifest.arguments
        if one.role == "output" and one.dtype.startswith("float")
    ]
    for name in manifest.tolerance:
        if name not in floats:
            yield (
                ["tolerance", name],
                f"no output of floats is called '{name}': integers are compared in every bit",
                ", ".join(floats) or "no tolerance",
            )
    try:
        checked_objectives(manifest.objectives)
    except UserError as error:
        yield ["objectives"], error.message, error.accepted


def _space(manifest: Manifest) -> Iterator[Fault]:
    texts: list[tuple[Keys, str]] = [
        (("knobs", name, "when"), one.when) for name, one in manifest.knobs.items() if one.when
    ]
    texts += [
        (("constraints", n, "require"), one.require) for n, one in enumerate(manifest.constraints)
    ]
    known = {*manifest.knobs, *manifest.params}
    for keys, text in texts:
        try:
            unknown = sorted(condition(text).names - known)
            if unknown and not isinstance(manifest.build, GeneratorOptions):
                yield keys, f"'{text}' names {unknown[0]}", f"knobs and parameters: {_list(known)}"
        except UserError as error:
            yield keys, error.message, error.accepted
            return
    for name, knob in manifest.knobs.items():
        strings = [one for one in knob.choices if isinstance(one, str)]
        if bad := [one for one in strings if not re.fullmatch(r"[A-Za-z0-9_.+-]{1,64}", one)]:
            yield ["knobs", name, "choices"], f"{bad[0]!r}", "letters, digits, _ . + -"
    if isinstance(manifest.reference, GoldenReference) and manifest.contracts != ["static"]:
        yield ["contracts"], "a golden reference knows one shape", 'contracts = ["static"]'
    is_generator = isinstance(manifest.build, GeneratorOptions)
    if isinstance(manifest.reference, GeneratorReference) and not is_generator:
        yield ["reference", "kind"], "the build is not a generator", "numpy, golden"
    if is_generator:
        return  # the program has more knobs
    if not manifest.knobs:
        yield ["knobs"], "no knob", "at least one"
        return
    try:
        space = manifest.space_at(manifest.defaults)
    except UserError as error:
        yield ["knobs"], error.message, error.accepted
        return
    if next(iter(space), None) is None:
        yield ["constraints"], "no config keeps all of them by default", "fewer constraints"
        return
    for name, values in manifest.configs.items():
        try:
            space.config({**space.nearest_config(values), **values})
        except UserError as error:
            yield ["configs", name], error.message, error.accepted


STRIDE = re.compile(r"([A-Za-z_]\w*)\.stride(?:_([1-5]))?")


def _calls(manifest: Manifest) -> Iterator[Fault]:
    if not isinstance(manifest.build, FunctionOptions):
        return
    ranks = {one.name: len(one.shape) for one in manifest.buffers}
    plain = {*manifest.params, *manifest.knobs, *(one.name for one in manifest.scalars)}
    for text in manifest.build.call:
        if text in ranks:
            continue
        stride = STRIDE.fullmatch(text)
        if stride is not None:
            rank = ranks.get(stride[1], 0)
            if int(stride[2] or 1) >= rank:
                yield ["build", "call"], f"'{text}'", f"strides of {_list(ranks)} they have"
            continue
        try:
            names = arithmetic(text).names
        except UserError as error:
            yield ["build", "call"], error.message, f"{error.accepted}, NAME.stride"
            return
        if unknown := sorted(names - plain):
            yield (
                ["build", "call"],
                f"'{text}' names {unknown[0]}",
                _list(ranks | dict.fromkeys(plain)),
            )
    open_ones = [one for one in manifest.contracts if one != "static"]
    for name, param in manifest.params.items():
        if param.is_extent and open_ones and extent_of(manifest, name) is None:
            yield (
                ["params", name],
                f"no argument's extent is '{name}': code under {open_ones[0]} could not know it",
                'an argument with it in its shape, is_extent = false, or contracts = ["static"]',
            )


def extent_of(manifest: Manifest, param: str) -> tuple[str, int] | None:
    """The first buffer with an extent that is ``param``, and the dimension, 0 innermost."""
    for table in manifest.buffers:
        for at, extent in enumerate(reversed(table.shape)):
            if extent == param:
                return table.name, at
    return None


def value_at(extent: int | str, params: Mapping[str, int]) -> int:
    """An extent of a shape for these parameters."""
    names: dict[str, Value] = dict(params)
    return int(arithmetic(str(extent)).value(names))


def is_input(table: ArgumentTable | DataTable) -> bool:
    """Whether it is read."""
    return isinstance(table, DataTable) or table.role == "input"


def buffer_of(table: ArgumentTable | DataTable, params: Mapping[str, int]) -> BufferSpec:
    """The buffer for these parameters; ``UserError`` if an extent is less than 1."""
    shape = tuple(value_at(extent, params) for extent in table.shape)
    if min(shape) < 1:
        raise UserError(
            f"{table.name} has the shape {list(shape)} for "
            + " ".join(f"{name}={value}" for name, value in params.items()),
            accepted="extents of 1 or more",
            next_step="choose larger parameters",
        )
    if isinstance(table, DataTable):
        return BufferSpec(table.name, table.dtype, shape, "input")
    return BufferSpec(table.name, table.dtype, shape, table.role, table.promised, tuple(table.mins))


def _list(names: Any) -> str:
    return ", ".join(sorted(names))


def fault_at(
    keys: Keys, text: str, place: str, why: str, accepted: str, next_step: str = ""
) -> UserError:
    """The error for the value at ``keys`` of the ``text`` in the file ``place``."""
    return fault_in_file(keys, text, place, why, accepted, next_step or _SEE)
