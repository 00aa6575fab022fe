"""Prefetches: rows of inputs that are fetched some iterations before they are read.

They pay where data comes from DDR. Buffers that fit L2 together are there already when a call
begins with warm caches, which is what is measured unless somebody asks otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tuner.space import Config, Knob
from tuner.space.derivation.facts import BufferFacts
from tuner.space.derivation.roles import Role, Roles, is_whole
from tuner.space.directives import Stage

KNOB = "prefetch"
_DISTANCES = (0, 1, 2, 4)
_VECTORS = 16
"""Vectors that count as a row where loops have no rows: DDR takes about as long as 100 packets."""


def prefetch_knob(roles: Roles) -> Iterator[Knob]:
    """How far ahead inputs are fetched, if they come from DDR."""
    if streamed(roles):
        doc = f"rows of tiles, or {_VECTORS} times as many vectors, to ask for inputs ahead"
        yield Knob(KNOB, _DISTANCES, doc, when="lanes > 1")


def streamed(roles: Roles) -> tuple[str, ...]:
    """Inputs that are larger than L1 and have rows of vectors, if L2 does not hold all buffers."""
    facts, target = roles.facts, roles.target
    if sum(map(_bytes, (*facts.inputs, *facts.outputs))) <= target.l2_bytes:
        return ()
    return tuple(
        buffer.name
        for buffer in facts.inputs
        if _bytes(buffer) > target.l1d_bytes
        and buffer.extents[0] * np.dtype(buffer.dtype).itemsize >= target.vector_bytes
    )


def prefetch(
    stage: Stage, roles: Roles, role: Role, config: Config, loop: str, *, long: bool
) -> None:
    """Has ``loop`` of a definition of ``role`` fetch the parts of inputs that its later iterations
    read, themselves and by stages that are computed inside. They are ``long`` if each has more than
    the vectors of one step."""
    distance = config.get(KNOB, 0)
    if not isinstance(distance, int) or distance == 0:
        return
    wanted = streamed(roles)
    for name in sorted(_read_by(roles, role, config) & set(wanted)):
        stage.prefetch(name, loop, distance * (1 if long else _VECTORS))


def _read_by(roles: Roles, role: Role, config: Config) -> set[str]:
    """Inputs that are read where ``role`` is computed."""
    found = set(role.facts.inputs)
    for name, _ in role.facts.reads:
        producer = roles.by_name[name]
        if not is_whole(producer, config):
            found |= _read_by(roles, producer, config)
    return found


def _bytes(buffer: BufferFacts) -> int:
    return prod(buffer.extents) * np.dtype(buffer.dtype).itemsize
