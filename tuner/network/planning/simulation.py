"""A stream through a plan, as a discrete-event simulation: what each resource does, and when.

Time advances from one end of an operation to the next. Each resource (a unit, or the DMA of a link)
repeats its operations in rounds and in their order, as soon as what they need is there: in round r,
an operation of stage s works on input r - s.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tuner.errors import InternalError


class Key(NamedTuple):
    """Names an operation: a task, its output copied to a unit, or a call of a unit."""

    kind: Literal["task", "copy", "call"]
    task: str
    unit: str


@dataclass(frozen=True)
class Operation:
    """Work of ``resource`` for each input. It begins when ``needs`` have ended for that input.

    What it makes is kept until the round of the last reader, in a buffer for each of these rounds.
    """

    key: Key
    resource: str
    time_us: float
    stage: int
    needs: tuple[Key, ...] = ()


class Ran(NamedTuple):
    """A bar of a Gantt chart: an operation on the input of this number, from start to end
    (microseconds)."""

    operation: Operation
    stream_input: int
    start_us: float
    end_us: float


@dataclass(frozen=True)
class Simulation:
    """The bars in order of start. Over the second half of ``inputs``: the mean time from an input's
    end to the next one's, and the longest from the arrival of an input to its end. The inputs that
    follow keep the pipeline full to the end."""

    ran: tuple[Ran, ...]
    inputs: int
    interval_us: float
    latency_us: float


def simulate(operations: Sequence[Operation], inputs: int, *, every_us: float = 0.0) -> Simulation:
    """``inputs`` of a stream, at least 2, through ``operations``, in which each follows those it
    needs. An input arrives ``every_us`` microseconds; at 0, they all wait from the start."""
    stages = 1 + max((one.stage for one in operations), default=0)
    ran = _events(operations, inputs + stages, every_us)
    ended: dict[int, float] = {}
    for one in ran:
        if one.operation.key.kind != "call":
            ended[one.stream_input] = max(ended.get(one.stream_input, 0.0), one.end_us)
    if not ended:
        return Simulation((), inputs, 0.0, 0.0)
    first, last = inputs // 2 - 1, inputs - 1
    latency = max(ended[at] - at * every_us for at in range(first + 1, last + 1))
    return Simulation(tuple(ran), inputs, (ended[last] - ended[first]) / (last - first), latency)


def _events(operations: Sequence[Operation], inputs: int, every_us: float) -> list[Ran]:
    by_key = {one.key: one for one in operations}
    readers: dict[Key, list[Operation]] = {key: [] for key in by_key}
    for one in operations:
        for need in one.needs:
            readers[need].append(one)
    buffers = {
        key: 1 + max((reader.stage - by_key[key].stage for reader in read), default=0)
        for key, read in readers.items()
    }
    waiting = {one.resource: deque[tuple[Operation, int]]() for one in operations}
    for turn in range(inputs + max((one.stage for one in operations), default=0)):
        for one in operations:
            if 0 <= turn - one.stage < inputs:
                waiting[one.resource].append((one, turn - one.stage))
    done: Counter[Key] = Counter()  # inputs that each operation has ended, which it does in order
    ends = [(at * every_us, 0, "") for at in range(inputs)]  # arrivals; then, of operations, too
    busy: dict[str, Operation] = {}
    ran: list[Ran] = []
    now = 0.0
    while True:
        for resource, queue in waiting.items():
            if resource in busy or not queue:
                continue
            one, at = queue[0]
            fed = now >= at * every_us and all(done[need] > at for need in one.needs)
            free = all(done[reader.key] > at - buffers[one.key] for reader in readers[one.key])
            if fed and free:
                queue.popleft()
                busy[resource] = one
                ran.append(Ran(one, at, now, now + one.time_us))
                heapq.heappush(ends, (now + one.time_us, len(ran), resource))
        if not ends:
            break
        now, _, resource = heapq.heappop(ends)
        if resource:
            done[busy.pop(resource).key] += 1
    if any(waiting.values()):
        raise InternalError("operations wait for each other")
    return ran
