"""The contract of a code generator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from tuner.candidate import Artifact, Candidate


class CodeGenerator(ABC):
    """Turns candidates into Hexagon objects, each in a process that can be killed.

    One instance serves several threads at once: at most ``workers`` compilations run at a time,
    further callers wait. The instance owns its processes; :meth:`close` ends them. The same
    candidate gives the same object bytes, whatever was compiled before it.
    """

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, workers: int = 1) -> None:
        """``workers`` is how many compilations may run at a time. Cheap: starts no process."""

    @abstractmethod
    def fingerprint(self) -> Mapping[str, str]:
        """Versions of everything that decides the object's bytes. Part of every cache key.

        Raises ``ToolchainError`` if a part is missing, naming the command that installs it.
        """

    @abstractmethod
    def compile(self, candidate: Candidate, *, with_assembly: bool = False) -> Artifact:
        """The object, header, loop nest and ``.schedule.h`` (and assembly) of ``candidate``.

        Raises ``CandidateError`` with outcome ``compile_error``, ``compiler_crash`` or
        ``timeout`` if the candidate is at fault, ``ToolchainError`` if the installation is.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends all worker processes. Safe to call twice; ``compile`` must not be called after."""

    def __enter__(self) -> CodeGenerator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
