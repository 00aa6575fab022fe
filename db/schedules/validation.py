"""Whether a stored schedule may be handed out: its config is a point of its problem's space, its
digests are those of what is stored, its seal fits, and its object is there.

A schedule's row refers to rows of its problem, artifact and measurement by keys. Each of them is
right by itself even if a key was changed to that of another row: by hand, by a restore that mixed
two states, or by a fault of ours. The seal is made when a schedule is stored, of the problem
(workload, target, contract), the config, the generator, the symbol and the object's digest, and
compared whenever it is handed out. It is not a signature: anybody who can write to the database can
make one. They cannot make an object, though: its own symbol table names kernel, parameters and
contract (:func:`db.files.artifacts.defines`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, Protocol

from db.files.artifacts import LOST_FILE, ArtifactFiles
from db.schedules.serving import ServingRow
from tuner.codegen.judged import mark_of, outside, outside_space
from tuner.identity import digest_of
from tuner.kernels import Kernel
from tuner.records.candidate import Problem
from tuner.space import Space

_KEPT_VERDICTS: Final = 65_536
_KEPT_CONFIGS: Final = 16_384
BROKEN = (
    "its object is not the one that was stored for this problem and config: the seal differs. "
    "Tune again, or import it again"
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


@lru_cache(maxsize=_KEPT_CONFIGS)
def read_config(text: str) -> tuple[Any, str]:
    """The value in the JSON ``text``, not to be changed, and its digest, whatever its order; that
    is empty for anything but a config. Kept: one config is often the best of many problems."""
    try:
        values = json.loads(text)
    except ValueError:
        return None, ""
    return values, digest_of(values) if isinstance(values, dict) else ""


class Validator:
    """Finds faults of rows. Verdicts are kept by content, so a changed row gets a new one. Threads
    may share it: at worst two of them judge the same row. ``require_place`` raises ``StoreError``
    if the artifacts of the database are somewhere else (:mod:`db.files.mark`)."""

    def __init__(self, files: ArtifactFiles, require_place: Callable[[], None]) -> None:
        self._files = files
        self._require_place = require_place
        # A space is a function of its problem and of the code of this process, so this names
        # what was judged.
        self._verdicts: dict[tuple[str, str, str, str, str], str] = {}

    def fault(
        self,
        row: ServingRow,
        problem: Problem,
        *,
        kernel: Kernel | None = None,
        space: Space | None = None,
    ) -> str:
        """Why ``row`` must not be handed out for ``problem``, under which it was found; empty if
        it may be. ``kernel`` is the problem's, for callers that have it. ``space`` is where the
        config has to lie: by default the space of its generator now."""
        if not seal_fits(row, problem):
            return BROKEN
        config, digest = read_config(row.config)
        if digest != row.config_digest:
            return "its config is not what was stored: the digest differs"
        if space is None and row.judged and row.judged == mark_of(problem, row.generator, digest):
            return self._object_fault(row)
        if space is not None:
            return outside(space, config) or self._object_fault(row)
        workload = problem.workload.digest
        key = (workload, problem.target.name, row.contract, row.generator, row.config_digest)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = outside_space(problem, config, row.generator, kernel)
            if len(self._verdicts) >= _KEPT_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict or self._object_fault(row)

    def _object_fault(self, row: ServingRow) -> str:
        """The size tells a lost or cut file; the digests of its bytes are checked whenever they
        are handed out."""
        size = self._files.size(row.artifact_digest, row.artifact_file_digest)
        if size is None:
            # A place that is not there, or another one, says nothing about single schedules.
            self._files.storage.require_present()
            self._require_place()
            return f"{LOST_FILE} is gone"
        if size != row.stored_bytes:
            return f"{LOST_FILE} has {size} bytes, not {row.stored_bytes}"
        return ""
