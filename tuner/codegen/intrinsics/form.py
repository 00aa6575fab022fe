"""A kernel in HVX intrinsics: what a form states, and the choices that all have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tuner.kernels import Kernel
from tuner.problem.workload import Problem
from tuner.space import Config, Constraint, Knob, KnobValue


class Form(ABC):
    """One way to write the kernels called :attr:`kernels`; it holds no state."""

    kernels: ClassVar[tuple[str, ...]]
    name: ClassVar[str]
    knobs: ClassVar[tuple[Knob, ...]]
    """Its own, besides those of clang."""
    constraints: ClassVar[tuple[Constraint, ...]]
    """Between the knobs; they may name :meth:`constants`."""
    clang_knobs: ClassVar[tuple[str, ...]] = ("llvm_pipeliner",)
    """Those of :data:`clang.KNOBS` that make a difference to its code."""
    headers: ClassVar[tuple[str, ...]] = ()
    """Further ones that come before."""

    def why_not(self, kernel: Kernel, problem: Problem) -> str:
        """Why it makes no code of ``problem``; empty if it does."""
        return ""

    @abstractmethod
    def constants(self, problem: Problem) -> Mapping[str, KnobValue]:
        """Facts of the problem that conditions name. In a portfolio they meet those of other
        generators, and so their names begin with ``reg_``, like those of knobs."""

    @abstractmethod
    def textbook(self, problem: Problem) -> dict[str, KnobValue]:
        """Choices that suit the shape."""

    def files(self, config: Config) -> str:
        """The name of its two files."""
        return self.name

    def functions(self, kernel: Kernel, problem: Problem, config: Config) -> str:
        """C that follows its header: what is written for each shape."""
        return ""

    @abstractmethod
    def macros(self, kernel: Kernel, problem: Problem, config: Config) -> Mapping[str, int]:
        """The macros of its files."""
