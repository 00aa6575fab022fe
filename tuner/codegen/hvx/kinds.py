"""Which plan a program gets: of the first kind that reads it, or of several outputs one each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

from tuner.codegen import clang, wrapping
from tuner.codegen.hvx.counting import Histogram
from tuner.codegen.hvx.plan import NoPlanError, Plan, RefusedError
from tuner.codegen.hvx.scanning import Scan
from tuner.codegen.hvx.strips import Stencil
from tuner.codegen.hvx.turning import Turn
from tuner.problem.buffers import BufferSpec
from tuner.program import Program, ProgramError
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

_KEPT = 256
_DEFINED = re.compile(
    r"^static (?:const |inline |__attribute__\(\(\w+\)\) )*\w+ \*?(\w+)(?=[(\[])", re.MULTILINE
)
"""The names of functions and tables."""


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
        found = found if isinstance(found, RefusedError) else reason
    assert found is not None  # noqa: S101 - there are kinds
    return found


@dataclass(frozen=True)
class _Part:
    """The plan of one output, and of which of the program's buffers."""

    plan: Plan
    specs: tuple[BufferSpec, ...]
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Several(Plan):
    """Several outputs, each made by itself: a function for each, which are called in turn."""

    accepted = "several outputs, each of such a kind"

    parts: tuple[_Part, ...]
    problem: Problem

    @classmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        if len(program.outputs) == 1:
            raise NoPlanError("it has one output")
        by_name, parts = {one.name: one for one in specs}, []
        for name in program.outputs:
            own = program.part(name)
            used = tuple(by_name[one] for one in (*(i.name for i in own.inputs), name))
            plan = plan_for(own, used, problem)
            if isinstance(plan, NoPlanError):
                raise RefusedError(f"of its output {name}: {plan}")
            inputs = tuple(program.inputs.index(one) for one in own.inputs)
            parts.append(_Part(plan, used, inputs))
        kinds = [type(part.plan) for part in parts if not isinstance(part.plan, Stencil)]
        if len({*kinds}) < len(kinds):
            raise RefusedError("two of its outputs are histograms, running sums or turned arrays")
        return cls(tuple(parts), problem)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        found = {
            name: Knob(name, one.choices, f"{one.doc} (output {number})")
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
        loops, functions = ["int failed;"], list[str]()
        for number, (part, own) in enumerate(zip(self.parts, self._configs(config), strict=True)):
            inner, before = part.plan.written(own)
            *given, made = part.specs
            local = [one._replace(name=f"input{n}") for n, one in enumerate(given)]
            local.append(made._replace(name="output"))
            names = {name: f"{name}_of_{number}" for name in _DEFINED.findall(before)}
            text = wrapping.function("part", self.problem, local, inner, is_apart=True)
            names["part"] = f"part_{number}"
            functions += [_renamed(before, names), _renamed(text, names)]
            there = [
                one._replace(name=f"input{n}") for one, n in zip(given, part.inputs, strict=True)
            ]
            there.append(made._replace(name=f"output{number}"))
            arguments = ", ".join(wrapping.arguments(self.problem, there))
            loops.append(f"if ((failed = part_{number}({arguments}))) return failed;")
        return "\n".join(loops), "\n".join(functions)

    def switches(self, config: Config) -> list[str]:
        found: dict[tuple[str, ...], None] = {}
        for part, own in zip(self.parts, self._configs(config), strict=True):
            given = iter(part.plan.switches(own))
            found |= {(one, next(given)) if one == "-mllvm" else (one,): None for one in given}
        return [one for switch in found for one in switch]

    def _configs(self, config: Config) -> list[Config]:
        """Those of the parts."""
        return [
            Config({one.name: config[_name(one.name, number)] for one in part.plan.knobs})
            for number, part in enumerate(self.parts)
        ]


KINDS: tuple[type[Plan], ...] = (Several, Turn, Histogram, Scan, Stencil)
"""Plans; the first that reads a program makes its code."""


def _name(knob: str, number: int) -> str:
    """That of a part's knob; clang compiles all parts alike."""
    return knob if knob in clang.DEFAULTS else f"{knob}_{number}"


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[A-Za-z_]\w*", lambda found: names.get(found[0], found[0]), text)
