"""Which plan a program gets: of the first kind that reads it, or of each of its parts one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
from tuner.codegen.hvx.routing import Routed
from tuner.codegen.hvx.scanning import Scan
from tuner.codegen.hvx.strips import Stencil
from tuner.codegen.hvx.transforming import Transform
from tuner.codegen.hvx.turning import Turn
from tuner.codegen.hvx.writing import TABLE_BYTES
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.problem.contract import Contract
from tuner.program import Program, ProgramError
from tuner.program.expressions import Constant, loads_in
from tuner.program.intervals import Patience, Scope, of_type
from tuner.program.loops import Buffer, Loop, Stage
from tuner.program.types import INDEX, U8
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_KEPT = 256
_TABLE = "table"
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

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        outer, known, parts = _outer(program, specs), {one.name: one for one in specs}, []
        whole = [program.part(name) for name in program.outputs]
        for one in whole if len(whole) > 1 else _by_a_table(program):
            (name,) = one.outputs
            made = known.setdefault(name, BufferSpec(name, "uint8", (TABLE_BYTES,), "input"))
            used = (*(known[own.name] for own in one.inputs), made._replace(role="output"))
            plan = plan_for(one, used, problem)
            if isinstance(plan, NoPlanError):
                refused = RefusedError if len(whole) > 1 else NoPlanError
                raise refused(f"of its output {name}: {plan}")
            named = (spec._replace(name=outer.get(spec.name, _TABLE)) for spec in used)
            parts.append(_Part(plan, tuple(named)))
        parts.sort(key=lambda part: not _counts(part.plan))
        if problem.contract is not Contract.STATIC and len(parts) > 1 and _counts(parts[1].plan):
            raise RefusedError("two of its outputs are histograms, which may be refused late")
        return cls(tuple(parts), problem)

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
        if any(spec.name == _TABLE for part in self.parts for spec in part.specs):
            loops.append(f"const int {_TABLE}_extent_0 = {TABLE_BYTES};")
            loops.append(f"uint8_t *{_TABLE} = scratch({TABLE_BYTES});")
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


KINDS: tuple[type[Plan], ...] = (
    *(Several, Turn, Histogram, Scan, Match, Product, Pointwise, Blocks, Transform, Gather, Filter),
    *(Narrow, Stencil, Flat, Routed),
)
"""Plans; the first that reads a program makes its code."""


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
