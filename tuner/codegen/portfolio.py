"""The code generator as one more choice of a search.

A portfolio's space is that of Halide's schedules with the knob ``generator`` before them: Halide's
own LLVM, clang on Halide's IR with its switches, or instead of a schedule, for kernels that state
their program, its loops as plain C, and for many kinds of them and for layers HVX intrinsics, each
with knobs of its own. So a config says by itself what makes its code, and all that works on configs
(samplers, resumed jobs, transfer, schedules with their provenance) works on it.

Few trials are wasted on alternatives that do not pay: the search begins with one config of each,
C has a handful of points, and an alternative that is behind gets a share of the trials
(:class:`tuner.search.proposer.Shares`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from tuner.codegen import clang
from tuner.codegen.c_autovec import CGenerator
from tuner.codegen.clang import HalideClangGenerator
from tuner.codegen.generator import GENERATOR, Alternatives
from tuner.codegen.halide.generator import HalideGenerator
from tuner.codegen.halide.servers import ServerGenerator
from tuner.codegen.hvx.generator import HvxGenerator
from tuner.codegen.intrinsics.generator import IntrinsicsGenerator
from tuner.errors import InternalError, UserError
from tuner.kernels import Kernel
from tuner.records.candidate import Artifact, Candidate, Problem
from tuner.space import Config, Constraint, Directive, Knob, KnobValue, Space

MAIN = HalideGenerator.name
"""The choice of generator that needs no more than the kernel's schedules."""

_MEMBERS: dict[str, type[ServerGenerator]] = {
    cls.name: cls
    for cls in (
        HalideGenerator,
        HalideClangGenerator,
        CGenerator,
        HvxGenerator,
        IntrinsicsGenerator,
    )
}
_WRITTEN = (HvxGenerator.name, IntrinsicsGenerator.name)
ORIGIN = "portfolio"
"""Of the configs that show a search what an alternative to Halide's LLVM makes of the kernel."""


class Portfolio(ServerGenerator):
    """All generators that can make code of a kernel; their compilations share the workers."""

    name = "portfolio"
    alternatives = Alternatives(GENERATOR, MAIN)
    compiler_knobs = frozenset(clang.DEFAULTS)
    takes_directives = True

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        parts = spaces(kernel, problem)
        return Space(
            kernel.name,
            _joined({name: part.knobs for name, part in parts.items()}),
            _constraints(tuple(part.constraints for part in parts.values())),
            _constants(parts),
        )

    @classmethod
    def left_out(cls, kernel: Kernel, problem: Problem) -> dict[str, str]:
        found = {}
        for name, member in _MEMBERS.items():
            try:
                member.space(kernel, problem)
            except UserError as error:
                found[name] = error.message.rpartition(f" {kernel.name}: ")[2]
        return found

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        of_halide = HalideGenerator.starts(kernel, problem)
        starts = {origin: _marked(HalideGenerator, c) for origin, c in of_halide.items()}
        # Code written for such kernels is likely to be far ahead: it comes before other compilers.
        for name in sorted(spaces(kernel, problem), key=lambda name: name not in _WRITTEN):
            if name != HalideGenerator.name:
                best = _MEMBERS[name].starts(kernel, problem)["textbook"]
                starts[f"{ORIGIN}:{name}"] = _marked(_MEMBERS[name], best)
        return starts

    def fingerprint(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for cls in _MEMBERS.values():
            found |= cls(servers=self.servers).fingerprint()
        return {**found, "generator": self.name}

    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        name, config = chosen(candidate.config)
        member = _MEMBERS[name](servers=self.servers)
        own = replace(candidate, config=config, generator=name)
        artifact = member.compile(own, with_assembly=with_assembly)
        return replace(artifact, identity=_marked_identity(name, artifact.identity))

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        name, config = chosen(candidate.config)
        member = _MEMBERS[name](servers=self.servers)
        own = replace(candidate, config=config, generator=name)
        return _marked_identity(name, member.identity(own, at_once=at_once))

    def compile_directives(self, problem: Problem, directives: Sequence[Directive]) -> Artifact:
        return HalideGenerator(servers=self.servers).compile_directives(problem, directives)


def spaces(kernel: Kernel, problem: Problem) -> dict[str, Space]:
    """The spaces of the generators that make code of ``problem``, Halide first."""
    parts = {MAIN: HalideGenerator.space(kernel, problem)}
    for name, member in _MEMBERS.items():
        if name != MAIN:
            with contextlib.suppress(UserError):  # it makes none of this kernel
                parts[name] = member.space(kernel, problem)
    return parts


def chosen(config: Config) -> tuple[str, Config]:
    """The generator that a portfolio's ``config`` names, and what is a config of that one."""
    rest = {name: value for name, value in config.items() if name != GENERATOR}
    return config.text(GENERATOR), Config(rest)


def _marked_identity(name: str, identity: str | None) -> str | None:
    return None if identity is None else f"{name} {identity}"


def _marked(member: type[ServerGenerator], config: Config) -> Config:
    return Config({GENERATOR: member.name, **config})


def _joined(parts: Mapping[str, tuple[Knob, ...]]) -> tuple[Knob, ...]:
    return _joined_once(tuple(parts.items()))


@cache
def _constraints(parts: tuple[tuple[Constraint, ...], ...]) -> tuple[Constraint, ...]:
    """Those of all parts. One applies where the knobs it names are active: with its generators."""
    return tuple(dict.fromkeys(constraint for part in parts for constraint in part))


def _constants(parts: Mapping[str, Space]) -> dict[str, KnobValue]:
    """Those of all ``parts``, which mean the same by the same name."""
    constants: dict[str, KnobValue] = {}
    for name, part in parts.items():
        for constant, value in part.constants.items():
            if constants.setdefault(constant, value) != value:
                raise InternalError(f"the space of {name} means something else by {constant}")
    return constants


@cache
def _joined_once(parts: tuple[tuple[str, tuple[Knob, ...]], ...]) -> tuple[Knob, ...]:
    """The knobs of all ``parts``, each active where its generators are chosen."""
    users: dict[str, list[str]] = {}
    knobs: dict[str, Knob] = {}
    for generator, own in parts:
        for knob in own:
            knobs.setdefault(knob.name, knob)
            users.setdefault(knob.name, []).append(generator)
    names = tuple(name for name, _ in parts)
    choice = Knob(
        GENERATOR, names, "what makes the code: Halide, clang of its IR or of C, or intrinsics"
    )
    return (choice, *(_where(knob, users[knob.name], names) for knob in knobs.values()))


def _where(knob: Knob, users: list[str], names: tuple[str, ...]) -> Knob:
    """``knob`` active for its ``users`` only."""
    if len(users) == len(names):
        return knob
    one = f"{GENERATOR} == '{users[0]}'" if len(users) == 1 else f"{GENERATOR} in {tuple(users)}"
    return replace(knob, when=one if knob.when is None else f"{one} and ({knob.when})")
