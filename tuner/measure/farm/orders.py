"""What waits to be measured, and which device may take what of it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum, auto

from tuner.errors import CandidateError, DeviceError, HvxtuneError
from tuner.measure.farm.device import Task
from tuner.measure.measurer import DEVICE_ATTEMPTS, Timed
from tuner.records.candidate import Artifact, Problem


class Standing(Enum):
    """What a device can do for the orders of this process."""

    SERVING = auto()
    ELSEWHERE = auto()
    """Somebody else holds it; its turn will come."""
    CHECKED = auto()
    """A check is under way; the first takes long where parts have to be built."""
    AWAITED = auto()
    """Suspect, offline or drained: it may come back."""
    OUT = auto()


@dataclass(eq=False)
class Order:
    """One candidate on its way to a measurement.

    ``avoid`` names devices that failed or condemned it, ``condemned`` who did so first, and
    ``samples`` what ``sampled_on`` gave so far.
    """

    problem: Problem
    artifact: Artifact
    budget_cycles: int | None
    repeats: int
    future: Future[Timed] = field(default_factory=Future)
    attempts: int = 0
    avoid: set[str] = field(default_factory=set)
    condemned: tuple[str, CandidateError] | None = None
    samples: list[int] = field(default_factory=list)
    sampled_on: str | None = None
    link_s: float = 0.0
    run_s: float = 0.0
    since: float = 0.0
    """When it began to wait, by the monotonic clock."""

    def task(self) -> Task:
        """What to ask a device for."""
        return Task(
            self.problem,
            self.artifact,
            warm_ups=1,
            repeats=self.repeats,
            budget_cycles=self.budget_cycles,
        )


class OrderQueue:
    """Orders and the standing of every device, for all threads of one measurer.

    After ``patience_s`` an order stops waiting for a device that is better suited.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._waiting: deque[Order] = deque()
        self._standings: dict[str, Standing] = {}
        self._changed = threading.Condition()
        self._end: HvxtuneError | None = None
        self._served_at = time.monotonic()

    def put(self, order: Order) -> None:
        """Lets an order wait. If all is over it ends at once."""
        with self._changed:
            order.since = time.monotonic()
            if self._end is None:
                self._waiting.append(order)
                self._changed.notify_all()
                return
        order.future.set_exception(self._end)

    def again(self, orders: list[Order]) -> None:
        """Puts orders back, before all others."""
        for order in reversed(orders):
            with self._changed:
                order.since = time.monotonic()
                if self._end is None:
                    self._waiting.appendleft(order)
                    self._changed.notify_all()
                    continue
            order.future.set_exception(self._end)

    def failed(self, order: Order, device: str, error: DeviceError) -> None:
        """Notes that ``device`` did not give an order a fair run. It is tried elsewhere, then
        ends with the error; again anywhere if the device is not to blame."""
        if error.attempts:
            order.attempts += 1
            order.avoid.add(device)
        if order.attempts < DEVICE_ATTEMPTS:
            self.again([order])
        else:
            order.future.set_exception(DeviceError(error.message, attempts=DEVICE_ATTEMPTS))

    def take(self, device: str, most: int, wait_s: float) -> list[Order]:
        """At most ``most`` orders for ``device``, after at most ``wait_s`` seconds.

        A device leaves as much to others that serve. What failed before goes alone: it may be
        what made the others of its batch fail.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not (mine := [o for o in self._waiting if self._may_take(o, device)]):
                left = deadline - time.monotonic()
                if self._end is not None or left <= 0:
                    return []
                self._changed.wait(left)
            if mine[0].attempts:
                taken = mine[:1]
            else:
                serving = sum(s is Standing.SERVING for s in self._standings.values())
                share = math.ceil(len(self._waiting) / max(1, serving))
                taken = [o for o in mine if not o.attempts][: min(most, share)]
            for order in taken:
                self._waiting.remove(order)
            return taken

    def _may_take(self, order: Order, device: str) -> bool:
        if time.monotonic() - order.since > self._patience_s:
            return True
        others = {
            name
            for name, standing in self._standings.items()
            if name != device and standing is not Standing.OUT
        }
        if device in order.avoid:
            return not (others - order.avoid)
        return order.sampled_on in (None, device) or order.sampled_on not in others

    def stand(self, device: str, standing: Standing) -> None:
        """Notes how a device stands."""
        with self._changed:
            if self._standings.get(device) is not standing:
                self._standings[device] = standing
                self._changed.notify_all()

    def waits_in_vain_s(self) -> float:
        """For how long orders have waited without any device to serve them; infinite if none will.

        0 while there is nothing to do.
        """
        with self._changed:
            now = time.monotonic()
            standings = set(self._standings.values())
            if not self._waiting or standings & {Standing.SERVING, Standing.ELSEWHERE}:
                self._served_at = now
                return 0.0
            if Standing.CHECKED in standings:
                return 0.0
            return now - self._served_at if Standing.AWAITED in standings else math.inf

    def end(self, error: HvxtuneError, *, for_good: bool = False) -> None:
        """Ends every order that waits with ``error``, and with ``for_good`` those to come."""
        with self._changed:
            waiting, self._waiting = list(self._waiting), deque()
            if for_good:
                self._end = error
            self._changed.notify_all()
        for order in waiting:
            order.future.set_exception(error)
