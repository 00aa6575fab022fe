"""The facts that a derivation needs of a pipeline, found in contained processes.

They follow from its syntax trees and from the bounds of its program. Halide lowers it once, for
what it gets wrong in vectors; nothing is compiled to code, so it takes tens of milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import halide as hl
import numpy as np

from tuner.codegen.halide.uploads.answers import (
    MOST_BUFFERS,
    MOST_TUNED_STAGES,
    NotTunableError,
    output_names,
)
from tuner.codegen.halide.uploads.contents import (
    Contents,
    Func,
    checked,
    expressions_in,
    is_variable,
    unnumbered,
)
from tuner.codegen.halide.uploads.defaults import amounts, bounding, lively, placing
from tuner.codegen.halide.uploads.intrinsics import Type
from tuner.codegen.halide.uploads.overflowing import told_overflow
from tuner.codegen.halide.uploads.pipelines import pipeline_of
from tuner.codegen.halide.uploads.program import Place, called, declared, read_program
from tuner.codegen.halide.uploads.regions import regions
from tuner.codegen.halide.uploads.rewriting import MIRRORS
from tuner.codegen.halide.uploads.stages import Stages
from tuner.program.bounds import Bounds, Box, bounded
from tuner.program.demands import demands_of
from tuner.program.expressions import ProgramError
from tuner.program.intervals import Interval
from tuner.program.loops import Program, Update
from tuner.space.derivation.facts import (
    BufferFacts,
    PipelineFacts,
    ScalarFacts,
)

_PRODUCE = re.compile(r"\s*produce ([^\s]+) {")
_WRONG_SHIFT = "widening_shift_right("
_WIDE_VECTOR = re.compile(r"\bu?int64x\d")
_FEW_LANES = 8
"""Of vectors that are never computed: Halide finds the same in them as in longer ones."""
_ONE = Interval(0, 0)
"""Along an axis of what nothing needs."""
_PROBES = (1, 4096)
"""Extents that inputs are given to see what depends on them."""
_FILE = "lowered"
_TARGET = "hexagon-32-noos-no_runtime"
"""Any of Hexagon will do."""


def analyse(
    data: bytes, given: Mapping[str, int], *, is_open: bool = False, folds: bool = False
) -> dict[str, Any]:
    """The facts of the pipeline at the sizes ``given`` (others by default), as JSON. With
    ``is_open`` they are for code that holds for other sizes too; with ``folds`` its mirrored
    coordinates are folded once (``rewriting``), as they are wherever that is the same.

    Works in the current directory. Raises ``NotTunableError``, or what Halide raises.
    """
    contents = checked(data)
    _require_kind(contents)
    sizes = Sizes(given)
    scalars = _scalars(contents, read_program(contents), sizes)
    fixed = {name: one.value for name, one in scalars.items() if one.decides}
    own = replace(contents, folds=folds, fixed=fixed)
    whole = {name: _whole_output(name, own, sizes) for name in own.outputs}
    ends = _ends(own, whole, sizes)
    told = {**fixed, **_values({at: one for at, one in ends.items() if not one.is_free})}
    if ends:
        own = replace(own, fixed={**fixed, **_values(ends)})
    boxes = _regions(own, whole)
    outputs = [one for name in own.outputs for one in _outputs(own.funcs[name], boxes[name])]
    inputs = [
        _input(name, kind, boxes[name], ends, sizes)
        for name, (kind, rank) in sorted(own.inputs.items())
        if rank >= 0
    ]
    described = Stages(own, is_open=is_open)
    mirrors = [name for name in described.helpers if MIRRORS.match(name)]
    may_fold = mirrors and not (is_open or folds)
    if may_fold and all(_is_folded_once(contents.funcs[one], boxes, inputs) for one in mirrors):
        return analyse(data, given, folds=True)
    places = {one.name: (one.mins, one.extents) for one in (*inputs, *outputs)}
    program = read_program(contents, known=places)
    decided = [(one.value, one.value) if one.decides else () for one in scalars.values()]
    bounds = bounded(declared(program, [()] * len(inputs), decided), {})
    steps, names = _steps(bounds), called(contents, program)
    needed = {
        names[one.name]: (bounds.boxes.get(one.name, (_ONE,) * len(one.axes)), steps[one.name])
        for one in program.stages
    }
    wrong = _wrong_in_vectors(own, described.helpers, (*inputs, *outputs))
    stages = [
        described.facts(name, *needed[name], is_wrong=name in wrong)
        for name in own.funcs
        if name not in described.helpers
    ]
    if len(stages) > MOST_TUNED_STAGES:
        raise NotTunableError(f"it has {len(stages)} stages; {MOST_TUNED_STAGES} at most")
    inputs, outputs = list(map(sizes.loose, inputs)), list(map(sizes.loose, outputs))
    inputs = list(map(sizes.ranged, inputs))
    found = _chosen(replace(contents, fixed=told), program, sizes, scalars)
    facts = PipelineFacts(
        tuple(inputs), tuple(outputs), tuple(stages), tuple(found), demands_of(bounds), folds
    )
    values = [one.ends or (one.value, one.value) for one in found]
    program = declared(program, [one.ends for one in inputs], values)
    declared_by = [*(one.name for one in inputs), *(one.name for one in found)]
    overflow = told_overflow(program, list(map(sizes.ranges.get, declared_by)))
    return {**asdict(facts), "params": sizes.params(), "overflow": overflow}


def _whole_output(name: str, contents: Contents, sizes: Sizes) -> Place:
    """Where an output lies that no other stage reads."""
    dimensions = contents.funcs[name].dimensions
    return (0,) * len(dimensions), sizes.output(name, dimensions)


def _regions(contents: Contents, places: Mapping[str, Place]) -> dict[str, Box]:
    """How far Halide's code goes where buffers lie at ``places``, by Halide's names, innermost
    first. Places of inputs are needed where expressions ask for them."""
    program = read_program(contents, known=places)
    found, names = regions(program), called(contents, program)
    return {name: found[own][::-1] for own, name in names.items() if own in found}


def _ends(
    contents: Contents, outputs: Mapping[str, Place], sizes: Sizes
) -> dict[tuple[str, int], Ends]:
    """Those of inputs along dimensions of which expressions ask."""
    program = read_program(contents)
    names = called(contents, program)
    wanted = {
        names[one.name]: [number for number, axis in enumerate(one.axes[::-1]) if axis]
        for one in program.inputs
        if any(one.axes)
    }
    found = []
    for extent in _PROBES if wanted else ():
        ranks = {name: contents.inputs[name][1] for name in wanted}
        places = {name: ((0,) * rank, (extent,) * rank) for name, rank in ranks.items()}
        try:
            found.append(_regions(contents, {**outputs, **places}))
        except ProgramError:  # as it may be of that extent only
            found.append({})
    ends = {}
    for name, numbers in wanted.items():
        for number in numbers:
            needs = {boxes[name][number] if name in boxes else None for boxes in found}
            ends[name, number] = sizes.ends(name, number, *(needs if len(needs) == 1 else ()))
    return ends


def _steps(bounds: Bounds) -> dict[str, list[list[int]]]:
    """The extents of the reductions of each update of each stage, innermost first."""
    scope = bounds.scope()

    def extents(update: Update) -> list[int]:
        reduced = [loop.bounds for loop in update.loops[::-1] if loop.bounds]
        return [max(0, high - low + 1) for low, high in map(partial(bounds.extent, scope), reduced)]

    return {stage.name: list(map(extents, stage.updates)) for stage in bounds.program.stages}


def _values(ends: Mapping[tuple[str, int], Ends]) -> dict[str, int]:
    """What expressions that ask for ``ends`` of inputs are told."""
    return {
        f"{name}.{what}.{number}": value
        for (name, number), one in ends.items()
        for what, value in (("min", one.least), ("extent", one.extent))
    }


def _input(
    name: str, kind: Type, box: Box, ends: Mapping[tuple[str, int], Ends], sizes: Sizes
) -> BufferFacts:
    """An input, of which ``box`` is read; the pipeline asks for ``ends``."""
    if any(high < low for low, high in box):
        raise NotTunableError(f"its input {name} is not used")
    own = [
        ends.get((name, number)) or sizes.ends(name, number, needs)
        for number, needs in enumerate(box)
    ]
    free = tuple(number for number, one in enumerate(own) if one.is_free)
    mins, extents = tuple(one.least for one in own), tuple(one.extent for one in own)
    return BufferFacts(name, _dtype(kind, f"input {name}"), mins, extents, free)


def _outputs(func: Func, box: Box) -> Iterator[BufferFacts]:
    """The buffers of an output, as large as other stages need it."""
    mins, extents = tuple(low for low, _ in box), tuple(high - low + 1 for low, high in box)
    names = output_names(func.name, len(func.types))
    for name, kind in zip(names, func.types, strict=True):
        yield BufferFacts(name, _dtype(kind, f"output {name}"), mins, extents)


def _scalars(contents: Contents, program: Program, sizes: Sizes) -> dict[str, ScalarFacts]:
    bounds, decisive = bounding(program), placing(program)
    found = {}
    names = called(contents, program)
    for own in program.scalars:
        name = names[own.name]
        dtype = _dtype(contents.inputs[name][0], f"scalar {name}")
        one = sizes.scalar(name, dtype, _usual(dtype, bounds[own.name]))
        found[name] = replace(one, decides=own.name in decisive)
    return found


def _chosen(
    pinned: Contents,
    program: Program,
    sizes: Sizes,
    usual: Mapping[str, ScalarFacts],
) -> list[ScalarFacts]:
    """The scalars with values at which outputs follow inputs, where nobody chose them. Bounds keep
    theirs, and those that decide places, on which what is ``pinned`` does not depend."""
    fixed = {name for name, one in usual.items() if one.decides}
    bounds, shifting = bounding(program), amounts(program)
    own = zip(usual, program.scalars, strict=True)
    fixed |= {name for name, one in own if bounds[one.name] and one.name not in shifting}
    values = {name: one.value for name, one in usual.items()}
    free = sizes.unchosen() - fixed
    if free:
        values = lively(read_program(pinned), usual, free)
    return [sizes.chosen(one, values[name]) for name, one in usual.items()]


def _usual(dtype: str, operand_of: Collection[str]) -> int:
    """The value of a scalar until another is chosen. ``operand_of`` are ``min`` and ``max`` where
    it is one of theirs."""
    if len(operand_of) != 1:
        return _SCALAR
    least, most = _whole(dtype)
    return least + _BEYOND_BOUND if "max" in operand_of else most - _BEYOND_BOUND


def _is_folded_once(mirror: Func, boxes: Mapping[str, Box], inputs: Sequence[BufferFacts]) -> bool:
    """Whether a mirror is read no farther beyond the ends of its input than the shorter of two is
    long: that of ``mirror_interior``, which leaves out the element at the edge."""
    buffers = {one.name: one for one in inputs}
    nodes = (node for root in mirror.values for node in expressions_in(root))
    for owner in {node["param_name"] for node in nodes if node.kind == "Variable"} & buffers.keys():
        one = buffers[owner]
        for least, extent, over in zip(
            one.mins, one.extents, boxes.get(mirror.name, ()), strict=False
        ):
            period = 2 * (extent - 1)
            if not Interval(least - period, least + period).covers(over):
                return False
    return True


def _require_kind(contents: Contents) -> None:
    for name, (_, rank) in sorted(contents.inputs.items()):
        if rank == 0:
            raise NotTunableError(f"its input {name} has no dimensions")
    outputs = [contents.funcs[name] for name in contents.outputs]
    for func in outputs:
        if not func.dimensions:
            raise NotTunableError(f"its output {func.name} has no dimensions")
    count = len(contents.inputs) + sum(len(func.types) for func in outputs)
    if count > MOST_BUFFERS:
        raise NotTunableError(f"it has {count} inputs, scalars and outputs; {MOST_BUFFERS} at most")


def _dtype(kind: Type, what: str) -> str:
    code, bits = kind
    if code not in ("int", "uint") or bits not in (8, 16, 32):
        raise NotTunableError(
            f"its {what} is of {code}{bits}; integers of 8, 16 or 32 bits are accepted"
        )
    return f"{code}{bits}"


def _wrong_in_vectors(
    contents: Contents,
    helpers: Collection[str],
    buffers: Iterable[BufferFacts],
) -> frozenset[str]:
    """Stages that Halide 21 computes wrongly in vectors, or not at all, whatever the schedule.

    The latter have vectors of 64 bits left once Halide has found what HVX has instructions for,
    such as the rounding high half of a product. The former widen bytes, compute with 32 bits what
    fits 16, and shift it right. Halide makes that a ``widening_shift_right`` of 16 bits, for which
    HVX has no instruction, and then takes the order of its operand's lanes, which widening has
    changed, for that of its wider result (``is_interleavable`` in HexagonOptimize.cpp).
    """
    guard = hl.TailStrategy.GuardWithIf
    made = pipeline_of(contents)
    dimensions = {one.name(): one.dim for one in made.inputs}
    for name, func in zip(contents.outputs, made.outputs, strict=True):  # a tuple's are alike
        dimensions[output_names(name, len(func.types()))[0]] = func.output_buffers()[0].dim
    for one in buffers:
        for number, ends in enumerate(zip(one.mins, one.extents, strict=True)):
            if one.name in dimensions:
                dimensions[one.name](number).set_bounds(*ends)
    for name, func in made.stages.items():
        if name in helpers:
            continue
        updates = [*enumerate(contents.funcs[name].updates)]
        # One loop for each variable; and written into one another, stages grow beyond all measure.
        func.compute_root().never_partition_all()
        for number, _ in updates:
            func.update(number).never_partition_all()
        if func.args():
            innermost = func.args()[0]
            # Names that Halide makes of its own (v0) may be those of the pipeline's variables.
            outer, inner = (hl.Var(f"{innermost.name()}_{part}") for part in "oi")
            along = (n for n, one in updates if is_variable(one.places[0], innermost.name()))
            for stage in (func, *map(func.update, along)):
                stage.split(innermost, outer, inner, _FEW_LANES, guard).vectorize(inner)
    arguments = [hl.Argument(one) for one in (*made.inputs, *made.scalars)]
    hl.Pipeline(list(made.outputs)).compile_to_lowered_stmt(
        _FILE, arguments, hl.StmtOutputFormat.Text, hl.Target(_TARGET)
    )
    names = {func.name(): name for name, func in made.stages.items()}
    found, producing = set(), ""
    with open(_FILE, encoding="utf-8", errors="replace") as file:
        for line in file:
            begun = _PRODUCE.match(line)
            producing = names.get(begun[1], "") if begun else producing
            if _WRONG_SHIFT in line or _WIDE_VECTOR.search(line):
                found.add(producing)
    return frozenset(found)


_DEFAULTS = {1: (16384,), 2: (256, 64), 3: (64, 32, 8), 4: (128, 8, 8, 1)}
"""Extents of an output by its dimensions, innermost first, until others are chosen: enough
for vectors, and few enough that the unscheduled code runs in seconds."""
_OTHERWISE = 4
_DECLARED_BYTES = 2
"""Of elements whose range may be declared."""
_FREE = 64
_FEW = 4
"""Of dimensions beyond those, which are the windows of filters: of what follows them all, too much
would be computed."""
_LARGEST = 65536
_SCALAR = 1
"""The value of a scalar until another is chosen: 0 would make nothing of many pipelines."""
_BEYOND_BOUND = 16
"""Values of their type that bounds of a clamp leave out at either end until others are chosen: at
one value for both, all that is clamped would be a constant. Few, for values may be of bytes."""


class Ends(NamedTuple):
    """Where an input begins along a dimension, and its extent; ``is_free`` if callers choose it."""

    least: int
    extent: int
    is_free: bool


@dataclass
class Sizes:
    """Reads ``given`` values by the names of parameters, and keeps which names there are."""

    given: Mapping[str, int]
    _names: dict[str, dict[str, Any]] = field(default_factory=dict)
    _scalars: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By input or scalar, the parameters that its values are declared by."""
    _first: tuple[int, ...] = ()
    _dimensions: tuple[str, ...] = ()

    def output(self, name: str, dimensions: Sequence[str]) -> tuple[int, ...]:
        """The extents of an output. The parameters of the first one are named as its dimensions;
        others are as large as it along dimensions of the same name, until something else is
        chosen."""
        if self._dimensions:
            return tuple(
                self._extent(
                    self._named(f"{name}_{dimension}", f"{name}_{number}"),
                    f"extent of {name} along {dimension}",
                    dict(zip(self._dimensions, self._first, strict=True)).get(dimension, _FREE),
                )
                for number, dimension in enumerate(dimensions)
            )
        rank = len(dimensions)
        extents = []
        for number, (dimension, default) in enumerate(
            zip(dimensions, _DEFAULTS.get(rank, (_OTHERWISE,) * rank), strict=True)
        ):
            own = self._named(dimension, f"d{number}")
            self._add(own, default, f"extent of the output along {own}", minimum=1)
            extents.append(self.given.get(own, default))
        self._first, self._dimensions = tuple(extents), tuple(dimensions)
        return self._first

    def ends(self, name: str, number: int, needs: Interval | None = None) -> Ends:
        """The ends of input ``name`` along its dimension ``number``, where it is read as far as
        ``needs``. Where that is not fixed, its extent is a parameter."""
        if needs is not None:
            first = min(0, needs.low)
            return Ends(first, needs.high + 1 - first, is_free=False)
        own = self._named(f"{name}_{number}", f"input_{number}")
        usual = self._first[number] if number < len(self._first) else _FREE
        if number >= len(_DEFAULTS):
            usual = _FEW
        extent = self._extent(own, f"extent of {name} in dimension {number}", usual)
        return Ends(0, extent, is_free=True)

    def scalar(self, name: str, dtype: str, usual: int) -> ScalarFacts:
        """The scalar input ``name``: its value is a parameter, and so is its range."""
        own = self._named(name, f"scalar_{len(self._names)}")
        least, most = _whole(dtype)
        self._add(own, usual, f"value of {name}", minimum=least, maximum=most, is_extent=False)
        self._scalars[name] = own
        ends = self._ends(name, dtype, f"{name} is", f"its scalar {name} is")
        value = self.given.get(own, usual)
        if ends and not ends[0] <= value <= ends[1]:
            declared = f"declared from {ends[0]} to {ends[1]}"
            raise NotTunableError(f"its scalar {name} is {value}, and {declared}; choose {own} too")
        return ScalarFacts(name, dtype, value, ends=ends)

    def unchosen(self) -> set[str]:
        """The scalars that have no given value."""
        return {name for name, own in self._scalars.items() if own not in self.given}

    def chosen(self, scalar: ScalarFacts, value: int) -> ScalarFacts:
        """``scalar`` at another ``value``, which becomes its default."""
        if value != scalar.value:
            self._names[self._scalars[scalar.name]]["default"] = value
        return replace(scalar, value=value)

    def loose(self, buffer: BufferFacts) -> BufferFacts:
        """``buffer`` with what is taken back of its promises: a parameter too. Ask after all that
        have extents: these keep their names."""
        rank = len(buffer.extents)
        own = self._named(f"{buffer.name}_loose", "loose")
        doc = (
            f"{buffer.name} lies anywhere, as rows of this many dense dimensions at any stride; "
            "0: as the contract says"
        )
        self._add(own, 0, doc, minimum=0, maximum=rank, is_extent=False, is_optional=True)
        return replace(buffer, loose=self.given.get(own, 0))

    def ranged(self, buffer: BufferFacts) -> BufferFacts:
        """Input ``buffer`` with the range that its elements are declared to have, which has
        parameters too where it matters: those of bytes overflow nothing that is added up."""
        name = buffer.name
        doc = f"elements of {name} are, as results are verified"
        return replace(buffer, ends=self._ends(name, buffer.dtype, doc, f"its input {name} has"))

    def _ends(self, name: str, dtype: str, doc: str, what: str) -> tuple[int, ...]:
        """The range that values are declared to have, if it is not that of their type."""
        if np.dtype(dtype).itemsize < _DECLARED_BYTES:
            return ()
        least, most = whole = _whole(dtype)
        limits: dict[str, Any] = {"minimum": least, "maximum": most, "is_extent": False}
        named = [self._named(f"{name}_{end}", end) for end in ("least", "most")]
        for own, end, usual in zip(named, ("least", "most"), whole, strict=True):
            self._add(own, usual, f"{end} that {doc}", **limits, is_optional=True)
        self.ranges[name] = named[0], named[1]
        low, high = (self.given.get(own, usual) for own, usual in zip(named, whole, strict=True))
        if low > high:
            raise NotTunableError(f"{what} declared from {low} to {high}")
        return () if (low, high) == whole else (low, high)

    def params(self) -> list[dict[str, Any]]:
        """The parameters there are: name, default, range, and what they mean."""
        return [{"name": name, **about} for name, about in self._names.items()]

    def _extent(self, own: str, doc: str, usual: int) -> int:
        """An extent that need not be chosen."""
        self._add(own, 0, f"{doc}; 0: as the output's, or few", minimum=0)
        return self.given.get(own, 0) or usual

    def _add(
        self,
        own: str,
        default: int,
        doc: str,
        *,
        minimum: int,
        maximum: int = _LARGEST,
        is_extent: bool = True,
        is_optional: bool = False,
    ) -> None:
        limits = {"minimum": minimum, "maximum": maximum}
        kind = {"is_extent": is_extent, "is_optional": is_optional}
        self._names[own] = {"default": default, "doc": doc, **limits, **kind}

    def _named(self, wanted: str, otherwise: str) -> str:
        plain = _plain(wanted)
        if plain and plain not in self._names:
            return plain
        plain, number = _plain(otherwise) or "size", 2
        found = plain
        while found in self._names:
            found, number = f"{plain}_{number}", number + 1
        return found


def _whole(dtype: str) -> tuple[int, int]:
    """The least and the greatest value of a type."""
    bounds = np.iinfo(dtype)
    return int(bounds.min), int(bounds.max)


def _plain(wanted: str) -> str:
    """A name fit for a parameter, without numbers of namesakes; empty if nothing is left of
    ``wanted``."""
    plain = re.sub(r"\W", "_", unnumbered(wanted.lower())).strip("_")
    return plain if re.fullmatch(r"[a-z][a-z0-9_]{0,39}", plain) else ""
