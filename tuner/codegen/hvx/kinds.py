"""Which plan a program gets: of the first kind that reads it, or of each of its parts one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.blocks import Blocks
from tuner.codegen.hvx.counting import Histogram
from tuner.codegen.hvx.filtering import Filter
from tuner.codegen.hvx.flattening import Flat
from tuner.codegen.hvx.gathering import Gather
from tuner.codegen.hvx.matching import Match
from tuner.codegen.hvx.multiplying import Product
from tuner.codegen.hvx.narrow import Narrow
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.pointwise import Pointwise
from tuner.codegen.hvx.recurring import Following, Recurrence, spelled
from tuner.codegen.hvx.routing import Routed
from tuner.codegen.hvx.scanning import Scan
from tuner.codegen.hvx.strips import Stencil
from tuner.codegen.hvx.transforming import Transform
from tuner.codegen.hvx.turning import Turn
from tuner.codegen.hvx.writing import TABLE_BYTES
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.program import Program, ProgramError
from tuner.program.bounds import Bounds
from tuner.program.expressions import Constant, Expr, Load, Variable, loads_in, rewritten
from tuner.program.intervals import Patience, Scope, of_type
from tuner.program.loops import Buffer, Loop, Stage, Update
from tuner.program.types import INDEX, U8
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_KEPT = 256
_TABLE_SPEC = BufferSpec("table", "uint8", (TABLE_BYTES,), "input")
_MOST_KEPT = 1 << 21
"""Bytes of arrays between parts."""
_ASKED = (ScalarSpec("is_asked", "int32", 0),)
"""A part is asked whether it refuses the call before one stores anything."""
_IS_ASKED = "#undef CHECKED\n#define CHECKED if (is_asked) return 0;"
_IS_CALLED = "#undef CHECKED\n#define CHECKED"
_DEFINED = re.compile(
    r"^(?:static|INLINE) (?:const |inline |__attribute__\(\(\w+\)\) )*\w+ \*?(\w+)(?=[(\[])"
    r"|^#define (\w+)|^typedef \w+ (\w+);|^struct (\w+)(?= \{)|^[A-Z]+\((\w+), ",
    re.MULTILINE,
)
"""The names of functions and tables, macros, types, and functions that macros make."""
_ENUMERATED = re.compile(r"^enum \{(.*?)\}", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"\b[A-Z][A-Z_]+(?= =)")


@lru_cache(maxsize=_KEPT)
def plan_for(loops: Program, specs: tuple[BufferSpec, ...], problem: Problem) -> Plan | NoPlanError:
    """The plan, or what says best why there is none: of a kind that it is, or else of the last."""
    found: NoPlanError | None = None
    for kind in KINDS:
        try:
            return kind.of(loops, specs, problem)
        except ProgramError as error:
            reason = NoPlanError(error.message)
        except NoPlanError as error:
            reason = error.with_traceback(None)
        found = found if isinstance(found, RefusedError) or not str(reason) else reason
    assert found is not None  # noqa: S101 - there are kinds
    return found


@dataclass(frozen=True)
class _Part:
    """The plan of one output or table, of buffers by the names that they have outside of it."""

    plan: Plan
    specs: tuple[BufferSpec, ...]


@dataclass(frozen=True)
class Several(Plan):
    """Several outputs, or a table and the output that is looked up in it, each made by itself: a
    function for each, which are called in turn."""

    accepted = "several outputs, each of such a kind"

    parts: tuple[_Part, ...]
    problem: Problem
    kept: tuple[BufferSpec, ...] = ()
    """Arrays between parts."""

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        outer, known, parts = _outer(program, specs), {one.name: one for one in specs}, []
        whole = [program.part(name) for name in program.outputs]
        for one in whole if len(whole) > 1 else _by_a_table(program):
            (name,) = one.outputs
            made = known.setdefault(name, _TABLE_SPEC._replace(name=name))
            used = (*(known[own.name] for own in one.inputs), made._replace(role="output"))
            plan = plan_for(one, used, problem)
            if isinstance(plan, NoPlanError):
                refused = RefusedError if len(whole) > 1 else NoPlanError
                raise refused(f"of its output {name}: {plan}")
            names = (outer.get(spec.name, _TABLE_SPEC.name) for spec in used)
            parts.append(_Part(plan, _named(used, names)))
        parts.sort(key=lambda part: not _counts(part.plan))
        if problem.contract is not Contract.STATIC and len(parts) > 1 and _counts(parts[1].plan):
            raise RefusedError("two of its outputs are histograms, which may be refused late")
        return cls(tuple(parts), problem, (_TABLE_SPEC,) if len(whole) == 1 else ())

    @property
    def knobs(self) -> tuple[Knob, ...]:
        found = {
            name: Knob(name, one.choices, f"{one.doc} (part {number})")
            for number, part in enumerate(self.parts)
            for one in part.plan.knobs
            for name in [_name(one.name, number)]
        }
        shared = {one.name: one for part in self.parts for one in part.plan.knobs}
        return tuple(shared.get(name, one) for name, one in found.items())

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        return {
            _name(name, number): value
            for number, part in enumerate(self.parts)
            for name, value in part.plan.textbook.items()
        }

    def written(self, config: Config) -> tuple[str, str]:
        functions, calls = list[str](), list[str]()
        for number, (part, own) in enumerate(zip(self.parts, self._configs(config), strict=True)):
            inner, before = part.plan.written(own)
            *given, made = part.specs
            local = [one._replace(name=f"input{n}") for n, one in enumerate(given)]
            local.append(made._replace(name="output"))
            names = {name: f"{name}_of_{number}" for name in _defined(before)}
            text = wrapping.function("part", self.problem, local, inner, _ASKED, is_apart=True)
            names["part"] = f"part_{number}"
            functions += [_renamed(before, names), _IS_ASKED, _renamed(text, names), _IS_CALLED]
            arguments = ", ".join(wrapping.arguments(self.problem, part.specs, "ASKED"))
            calls.append(f"if ((failed = part_{number}({arguments}))) return failed;")
        loops = ["int failed;"]
        for one in self.kept:
            loops.append(f"const int {one.name}_extent_0 = {one.shape[-1]};")
            kind = wrapping.element_type(one).removeprefix("const ")
            loops.append(f"{kind} *{one.name} = scratch({one.payload_bytes});")
        for asked in (0,) if self.problem.contract is Contract.STATIC else (1, 0):
            loops += [one.replace("ASKED", str(asked)) for one in calls]
            loops += ["CHECKED"] if asked else []
        return "\n".join(loops), "\n".join(functions)

    def switches(self, config: Config) -> list[str]:
        found: dict[tuple[str, ...], None] = {}
        for part, own in zip(self.parts, self._configs(config), strict=True):
            given = iter(part.plan.switches(own))
            found |= {(one, next(given)) if one == "-mllvm" else (one,): None for one in given}
        return [one for switch in found for one in switch]

    def _configs(self, config: Config) -> list[Config]:
        """Those of the parts."""
        each = ([one.name for one in part.plan.knobs] for part in self.parts)
        return [
            Config({own: config[name] for own in names if (name := _name(own, number)) in config})
            for number, names in enumerate(each)
        ]


@dataclass(frozen=True)
class Turned(Several):
    """A recurrence along rows: its inputs are turned, it goes down rows, and is turned back. Rows
    that are too few to fill vectors are copied to more, of which the last are lost."""

    accepted = "elements that follow from those before"

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if problem.contract is not Contract.STATIC or program.scalars:
            raise NoPlanError
        steps = _Steps(program, specs, problem)
        if sum(one.payload_bytes for one in steps.kept.values()) > _MOST_KEPT:
            raise RefusedError("it takes too much memory to turn it")
        parts = list[_Part]()
        for own, used, names in steps.found:
            plan = plan_for(own, used, problem)
            if isinstance(plan, NoPlanError):
                raise RefusedError(f"of its rows turned: {plan}")
            parts.append(_Part(plan, _named(used, names)))
        return cls(tuple(parts), problem, tuple(steps.kept.values()))


class _Steps:
    """What a recurrence along rows takes, turned: programs, with specs of their buffers and names
    of these in C; and the arrays that they leave, by name."""

    def __init__(self, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> None:
        self.found: list[tuple[Program, tuple[BufferSpec, ...], list[str]]] = []
        self.kept: dict[str, BufferSpec] = {}
        outer = _outer(program, specs)
        program = spelled(program, {one.name: one.shape for one in specs})
        stage, update, axis, loop = Following.of(program)
        made, known = specs[-1], {one.name: one for one in specs}
        if len(made.shape) != len(stage.axes) or (len(stage.axes), axis) != (2, 1):
            raise NoPlanError
        if any(spec.loose or any(spec.mins) for spec in specs):
            raise RefusedError("its buffers are loose, or do not begin at 0")
        sizes = program.sizes_at({one.name: one.shape for one in specs})
        scope, (down, across) = Bounds(program, sizes).scope(), stage.places
        ends = [Constant(scope.of(end).low, INDEX) for end in loop.bounds]
        buffers = {one.name: one for one in program.inputs}
        loads = loads_in(stage.values[0], *update.values)
        turned = {
            load.source
            for load in loads
            if load.source in buffers and len(load.indices) == 2 and load.indices[0] is down
        }
        each = [known[name].element_bytes for name in turned]
        rows, width = made.shape
        least = problem.target.vector_bytes // min([*each, made.element_bytes])
        self._rows, self._shape = max(rows, least), (rows, width)
        for name in sorted(turned):
            self._turn(known[name], buffers[name], outer[name])

        def there(node: Expr) -> Expr:
            if isinstance(node, Variable) and node.name in sizes:
                return Constant(sizes[node.name], INDEX)
            if isinstance(node, Load) and (node.source in turned or stage.is_own(node)):
                name = f"{node.source}_turned"
                return Load(name, node.indices[::-1], node.type)
            return node

        given = [one for one in program.inputs if one.name not in turned]
        arguments = [_array(f"{n}_turned", buffers[n], (width, self._rows)) for n in sorted(turned)]
        axes = [
            Loop(one.name, Constant(0, INDEX), Constant(extent, INDEX))
            for one, extent in ((across, width), (down, self._rows))
        ]
        following = Update(
            (Loop(loop.name, *ends), Loop(down.name)),
            update.places[::-1],
            tuple(rewritten(one, there) for one in update.values),
        )
        whole = Stage(
            (f"{made.name}_turned",),
            tuple(axes),
            tuple(rewritten(one, there) for one in stage.values),
            (following,),
        )
        own = _program((*arguments, *_fixed(given, known)), whole)
        used = [self.kept[f"kept_{outer[name]}"] for name in sorted(turned)]
        names = [one.name for one in used] + [outer[one.name] for one in given]
        used = [
            one._replace(name=f"{n}_turned") for n, one in zip(sorted(turned), used, strict=True)
        ]
        used += [known[one.name] for one in given]
        back = made._replace(name=f"{made.name}_turned", shape=(width, self._rows), role="output")
        self._keep(back, "kept_output")
        self.found.append((own, (*used, back), [*names, "kept_output"]))
        result = _array(back.name, stage, (width, self._rows))
        self._back(back, result, made)

    def _keep(self, spec: BufferSpec, name: str) -> None:
        self.kept[name] = spec._replace(name=name, role="input")

    def _turn(self, spec: BufferSpec, buffer: Buffer, outer: str) -> None:
        """The input ``spec``, turned, with more rows if it has too few."""
        if spec.shape[0] < self._rows:
            source = _array(spec.name, buffer, spec.shape)
            copy = spec._replace(name=f"{spec.name}_copy", role="output")
            self._keep(copy._replace(shape=(self._rows, spec.shape[1])), f"copy_{outer}")
            self.found.append((_copied(source, copy.name), (spec, copy), [outer, f"copy_{outer}"]))
            spec = copy._replace(role="input", shape=(self._rows, spec.shape[1]))
            outer_of = f"copy_{outer}"
        else:
            outer_of = outer
        turned = spec._replace(name="turned", shape=spec.shape[::-1], role="output")
        self._keep(turned, f"kept_{outer}")
        source = _array(spec.name, buffer, spec.shape)
        step = _copied(source, "turned", is_turned=True), (spec, turned)
        self.found.append((*step, [outer_of, f"kept_{outer}"]))

    def _back(self, spec: BufferSpec, result: Buffer, made: BufferSpec) -> None:
        """The output of what is turned."""
        back = spec._replace(role="input")
        whole = made._replace(shape=(self._rows, made.shape[1]))
        name = "output" if whole == made else "copy_output"
        self.found.append(
            (_copied(result, made.name, is_turned=True), (back, whole), ["kept_output", name])
        )
        if whole != made:
            self._keep(whole, name)
            some = made._replace(name="some", role="input")
            source = _array("some", result, made.shape)
            self.found.append((_copied(source, made.name), (some, made), [name, "output"]))


KINDS: tuple[type[Plan], ...] = (
    *(Several, Turn, Histogram, Scan, Match, Product, Pointwise, Blocks, Transform, Gather, Filter),
    *(Narrow, Stencil, Flat, Routed, Recurrence, Turned),
)
"""Plans; the first that reads a program makes its code."""


def _array(name: str, like: Buffer | Stage, shape: Sequence[int]) -> Buffer:
    """An input of ``shape`` with elements as those of ``like``."""
    kind = like.type if isinstance(like, Buffer) else like.types[0]
    low, high = (like.low, like.high) if isinstance(like, Buffer) else (kind.low, kind.high)
    ends = tuple((Constant(0, INDEX), Constant(extent, INDEX)) for extent in shape)
    return Buffer(name, kind, ends, low, high)


def _fixed(buffers: Sequence[Buffer], specs: Mapping[str, BufferSpec]) -> list[Buffer]:
    """``buffers`` of the shapes of their ``specs``."""
    return [_array(one.name, one, specs[one.name].shape) for one in buffers]


def _program(arguments: Sequence[Buffer], stage: Stage) -> Program:
    return Program("part", (), tuple(arguments), (), (stage,), stage.arrays)


def _copied(source: Buffer, name: str, *, is_turned: bool = False) -> Program:
    """``source`` as ``name``; if it ``is_turned``, its rows as columns."""
    axes = tuple(Loop(f"at_{n}", *ends) for n, ends in enumerate(source.axes))
    load = source.at(*(axis.index for axis in axes))
    return _program((source,), Stage((name,), axes[::-1] if is_turned else axes, (load,)))


def _named(specs: Sequence[BufferSpec], names: Iterable[str]) -> tuple[BufferSpec, ...]:
    return tuple(one._replace(name=name) for one, name in zip(specs, names, strict=True))


def _counts(plan: Plan) -> bool:
    """Whether it is a histogram, or has one."""
    parts = plan.parts if isinstance(plan, Several) else ()
    return isinstance(plan, Histogram) or any(_counts(part.plan) for part in parts)


def _defined(text: str) -> Iterator[str]:
    """The names that ``text`` defines for what follows it: not macros that it undefines."""
    for found in _DEFINED.finditer(text):
        name = found[found.lastindex or 0]
        if f"#undef {name}\n" not in text:
            yield name
    for found in _ENUMERATED.finditer(text):
        yield from _NUMBER.findall(found[1])


def _by_a_table(program: Program) -> list[Program]:
    """What makes a table of bytes, and the output that is looked up in it."""
    (output,) = program.outputs
    ends = (Constant(0, INDEX), Constant(TABLE_BYTES, INDEX))
    for stage in program.stages:
        is_one = stage.types == (U8,) and len(stage.axes) == 1 and stage.name != output
        if is_one and _is_read_by_bytes(program, stage):
            (axis,) = stage.axes
            whole = replace(stage, axes=(Loop(axis.name, *ends),))
            stages = tuple(whole if one is stage else one for one in program.stages)
            table = replace(program, stages=stages, outputs=(stage.name,)).part(stage.name)
            others = tuple(one for one in program.stages if one is not stage)
            given = (*program.arguments, Buffer(stage.name, U8, (ends,), U8.low, U8.high))
            return [table, replace(program, arguments=given, stages=others).part(output)]
    raise NoPlanError("it has one output, and no table")


def _is_read_by_bytes(program: Program, stage: Stage) -> bool:
    """Whether ``stage`` is read at numbers that bytes have."""
    scope = Scope({}, lambda load: of_type(load.type), Patience())
    others = (one for one in program.stages if one is not stage)
    loads = (load for one in others for load in loads_in(*one.expressions))
    read = (load.indices[0] for load in loads if load.source == stage.name)
    return all(of_type(U8).covers(scope.of(index)) for index in read)


def _outer(program: Program, specs: Sequence[BufferSpec]) -> dict[str, str]:
    """The names in C of the buffers of ``program``."""
    names = [f"input{number}" for number in range(len(program.inputs))]
    made = [f"output{number}" for number in range(len(program.outputs))]
    names += made if len(made) > 1 else ["output"]
    return {spec.name: name for spec, name in zip(specs, names, strict=True)}


def _name(knob: str, number: int) -> str:
    """That of a part's knob; clang compiles all parts alike."""
    return knob if knob in clang.DEFAULTS else f"{knob}_{number}"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)
