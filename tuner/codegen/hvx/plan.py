"""The interface of plans: how a program of one kind becomes HVX intrinsics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Self

from tuner.codegen import clang
from tuner.problem.buffers import BufferSpec, ScalarSpec
from tuner.program import Program
from tuner.records.candidate import Problem
from tuner.space import Config, Knob, KnobValue

VECTORS = """
typedef int V __attribute__((vector_size(VECTOR_BYTES), aligned(VECTOR_BYTES)));
typedef int VU __attribute__((vector_size(VECTOR_BYTES), aligned(1)));
typedef int W __attribute__((vector_size(2 * VECTOR_BYTES), aligned(VECTOR_BYTES)));
#define at_most(value, most) ((value) < (most) ? (value) : (most))
#define HVX(name) __builtin_HEXAGON_V6_##name##_128B
#define CHECKED /* from here on a call is not refused */
"""
"""What the functions of every plan may use: vectors, those off vector boundaries, and pairs."""


def scalars_of(program: Program) -> tuple[ScalarSpec, ...]:
    """Those of ``program``, by names that are C's, whatever a pipeline calls them."""
    kinds = (
        f"{'' if one.type.is_signed else 'u'}int{max(one.type.bits, 8)}" for one in program.scalars
    )
    return tuple(ScalarSpec(f"scalar{n}", kind, 0) for n, kind in enumerate(kinds))


class NoPlanError(Exception):
    """A program is none of a kind; the text says why."""


class RefusedError(NoPlanError):
    """It is of the kind, and there is no code for it."""


class Plan(ABC):
    """A program of a kind that there is code for. Immutable: it serves several configs."""

    accepted: ClassVar[str]
    """The kind, for people."""

    @classmethod
    @abstractmethod
    def of(cls, program: Program, specs: Sequence[BufferSpec], problem: Problem) -> Self:
        """That of ``program`` for ``specs``: its inputs, then its outputs, by its names for them.
        :class:`NoPlanError` or :class:`ProgramError` says why there is none."""

    @property
    @abstractmethod
    def knobs(self) -> tuple[Knob, ...]:
        """The choices that decide something."""

    @property
    def textbook(self) -> Mapping[str, KnobValue]:
        """Choices to begin with; the first of each other knob."""
        return {}

    @abstractmethod
    def written(self, config: Config) -> tuple[str, str]:
        """C of a config: the loops between buffers ``input0``, ``input1`` and so on and ``output``,
        and the functions before them (:mod:`tuner.codegen.wrapping`). ``CHECKED`` comes after all
        that refuses a call; a histogram may be refused later, before it stores anything."""

    def switches(self, config: Config) -> list[str]:
        """For clang."""
        return clang.switches(config)
