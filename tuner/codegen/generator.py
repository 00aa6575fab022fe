"""The contract of a code generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tuner.errors import InternalError
from tuner.records.candidate import Artifact, Candidate, Problem

if TYPE_CHECKING:
    from tuner.kernels import Kernel
    from tuner.space import Config, Directive, KnobValue, Space

GENERATOR = "generator"
"""The knob by which a config of several generators names its own."""


@dataclass(frozen=True)
class Alternatives:
    """A knob that chooses between one main way to make code and alternatives to it.

    A search gives ``main`` any number of trials, and an alternative that is behind only a share.
    """

    knob: str
    main: KnobValue

    def within(self, space: Space) -> Alternatives | None:
        """These, if ``space`` has the knob with such a choice."""
        there = any(one.name == self.knob and self.main in one.choices for one in space.knobs)
        return self if there else None


class CodeGenerator(ABC):
    """Turns candidates into Hexagon objects, each in a process that can be killed.

    One instance serves several threads at once: at most ``workers`` compilations run at a time,
    further callers wait. The instance owns its processes; :meth:`close` ends them. The same
    candidate gives the same object bytes, whatever was compiled before it.
    """

    name: ClassVar[str]
    alternatives: ClassVar[Alternatives | None] = None
    """The knob of every :meth:`space` whose choices are alternatives, if it has one."""
    default_is_naive: ClassVar[bool] = False
    """Whether its default config is code without any schedule, which nothing is told against."""
    compiler_knobs: ClassVar[frozenset[str]] = frozenset()
    """Knobs for the compiler alone: identities (:meth:`identity`) do not depend on them."""
    takes_directives: ClassVar[bool] = False
    """Whether it compiles schedules besides configs (:meth:`compile_directives`)."""

    @classmethod
    def space(cls, kernel: Kernel, problem: Problem) -> Space:
        """The configs that it makes code of: by default the schedules of ``kernel``.

        Raises ``UserError`` if it makes no code for ``kernel``.
        """
        return kernel.space(problem)

    @classmethod
    def left_out(cls, kernel: Kernel, problem: Problem) -> dict[str, str]:
        """The other generators that its :meth:`space` would choose from, had they code of
        ``kernel``, and why they have none."""
        return {}

    @classmethod
    def starts(cls, kernel: Kernel, problem: Problem) -> dict[str, Config]:
        """The first configs of a search of :meth:`space`, by their origins and in order:
        ``default`` and ``textbook``, then further ones."""
        return {
            "default": kernel.default_config(problem),
            "textbook": kernel.textbook_config(problem),
        }

    @abstractmethod
    def __init__(self, workers: int = 1) -> None:
        """``workers`` is how many compilations may run at a time. Cheap: starts no process."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Versions of everything that decides the object's bytes, as text by name: part of every
        cache key. ``generator`` is :attr:`name`; no other generator has the same fingerprint.

        Raises ``ToolchainError`` if a part is missing, naming the command that installs it.
        """

    @abstractmethod
    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        """The object, header, loop nest and ``.schedule.h`` (and assembly) of ``candidate``.

        Raises ``CandidateError`` with outcome ``compile_error``, ``compiler_crash`` or
        ``timeout`` if the candidate is at fault, ``device_error`` if the compiler was killed from
        outside each time it was tried; ``ToolchainError`` if the installation is at fault.
        """

    def identity(self, candidate: Candidate, *, at_once: bool = False) -> str | None:
        """Names what the compiler is given, in a small part of a compilation's time: candidates
        of one problem with the same identity give the same object if their configs agree in
        :attr:`compiler_knobs`. ``None`` where that is not known, or with ``at_once`` not without a
        process of its own."""
        return None

    def compile_directives(self, problem: Problem, directives: Sequence[Directive]) -> Artifact:
        """The same files of the kernel's pipeline with a schedule of the user's own; raises alike.
        ``Directive.func`` is a stage's name, or ``@N`` for Halide's ``get_func(N)``."""
        raise InternalError(f"{self.name} takes no schedules")

    def blame(self, candidate: Candidate) -> str:
        """What wrong outputs of ``candidate`` are the fault of, in a sentence; empty where that is
        not known. May take as long as the reference does."""
        return ""

    def limit(self, processor_s: float) -> None:
        """Ends compilations that begin from now on after ``processor_s`` seconds of processor
        time (infinite: only after the generator's own limit): outcome ``timeout``. A generator that
        cannot do so lets them finish."""
        return

    def abandon(self) -> None:
        """Ends compilations under way, from another thread: they, and all that follow, raise
        ``OutOfTimeError``. Safe to call twice. A generator that cannot do so lets them finish."""
        return

    @abstractmethod
    def close(self) -> None:
        """Ends all worker processes. Safe to call twice; ``compile`` must not be called after."""

    def __enter__(self) -> CodeGenerator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
