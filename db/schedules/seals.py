"""Seals of schedules: one digest that ties an object to what it was stored for.

A schedule's row refers to rows of its problem, artifact and measurement by keys. Each of them is
right by itself even if a key was changed to that of another row: by hand, by a restore that mixed
two states, or by a fault of ours. The seal is made when a schedule is stored, of the problem
(workload, target, contract), the config, the generator, the symbol and the object's digest, and
compared whenever it is handed out. It is no signature: whoever can write to the database can make
one. What they cannot make is an object: its own symbol table names kernel, parameters and contract
(:func:`db.files.artifacts.defines`).
"""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

from tuner.records.candidate import Problem

BROKEN = (
    "its object is not the one that was stored for this problem and config: the seal differs. "
    "Tune again, or import it anew"
)
"""The reason for quarantine."""


def seal_of(
    problem: Problem, *, config_digest: str, generator: str, symbol: str, artifact_digest: str
) -> str:
    """The seal. Made of digests at hand: it is compared in every query."""
    workload, target = problem.workload.digest, problem.target.digest
    parts = (workload, target, problem.contract, config_digest, generator, symbol, artifact_digest)
    return sha256("\0".join(parts).encode()).hexdigest()


class Sealed(Protocol):
    """A row of a schedule, however it was read."""

    @property
    def seal(self) -> str: ...
    @property
    def config_digest(self) -> str: ...
    @property
    def generator(self) -> str: ...
    @property
    def symbol(self) -> str: ...
    @property
    def artifact_digest(self) -> str: ...


def seal_fits(row: Sealed, problem: Problem) -> bool:
    """Whether the schedule in ``row``, stored under ``problem``, is as it was sealed."""
    return row.seal == seal_of(
        problem,
        config_digest=row.config_digest,
        generator=row.generator,
        symbol=row.symbol,
        artifact_digest=row.artifact_digest,
    )
