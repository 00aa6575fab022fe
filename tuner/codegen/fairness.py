"""Fair use of scarce places for work: users take turns, and none gets all places.

:data:`ON_BEHALF_OF` names the user; threads inherit it with their context. Work for nobody in
particular, as of a command at a terminal, is limited by the number of places alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from tuner.errors import ComeBackLaterError

ON_BEHALF_OF: ContextVar[str] = ContextVar("on_behalf_of", default="")
"""The user for whom work is done; empty for nobody in particular."""

T = TypeVar("T")


class Ledger:
    """Seconds that each user has used, as a leaky bucket: it holds ``seconds`` and drains them in
    ``window_s``. Safe from several threads."""

    def __init__(
        self, seconds: float, window_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.seconds = seconds
        self.window_s = window_s
        self._clock = clock
        self._lock = threading.Lock()
        self._levels: dict[str, tuple[float, float]] = {}

    def charge(self, user: str, seconds: float) -> None:
        """Adds ``seconds`` used by ``user``."""
        with self._lock:
            self._levels[user] = (self._level(user) + seconds, self._clock())
            for other in [u for u in self._levels if self._level(u) <= 0]:
                del self._levels[other]

    def level(self, user: str) -> float:
        """Seconds of ``user`` that have not drained yet."""
        with self._lock:
            return self._level(user)

    def wait_s(self, user: str) -> float:
        """How long until ``user`` may have more; 0 if that is now."""
        return max(0.0, (self.level(user) - self.seconds) * self.window_s / self.seconds)

    def _level(self, user: str) -> float:
        level, then = self._levels.get(user, (0.0, 0.0))
        return max(0.0, level - (self._clock() - then) * self.seconds / self.window_s)


class FairPlaces(Generic[T]):
    """Things that one thread uses at a time, handed out in turn among users.

    The waiting request whose user has used the least lately goes first. A user never holds all
    places at once, nor gets more than the ledger's seconds, nor has more than ``most_waiting``
    requests in line.
    """

    def __init__(
        self,
        things: Sequence[T],
        *,
        what: str,
        ledger: Ledger,
        most_waiting: int,
        patience_s: float,
    ) -> None:
        self._free = list(things)
        self._most_of_one = max(1, len(things) - 1)
        self._what = what
        self._ledger = ledger
        self._most_waiting = most_waiting
        self._patience_s = patience_s
        self._changed = threading.Condition()
        self._line: dict[Hashable, str] = {}
        self._held: dict[str, int] = {}

    @contextmanager
    def one(self) -> Iterator[T]:
        """One thing, for as long as the context lasts; waits for it.

        ``ComeBackLaterError`` if the user has used too much, has too many requests in line, or no
        place comes free in ``patience_s``.
        """
        user = ON_BEHALF_OF.get()
        thing = self._take(user)
        began = time.monotonic()
        try:
            yield thing
        finally:
            with self._changed:
                self._free.append(thing)  # the last used is the next
                self._held[user] -= 1
                if user:
                    self._ledger.charge(user, time.monotonic() - began)
                self._changed.notify_all()

    def _take(self, user: str) -> T:
        ticket = object()
        with self._changed:
            self._admit(user)
            self._line[ticket] = user
            try:
                if not self._changed.wait_for(lambda: self._is_next(ticket), self._patience_s):
                    raise ComeBackLaterError(
                        f"no place to {self._what} in {self._patience_s:g} s",
                        wait_s=self._patience_s,
                    )
                self._held[user] = self._held.get(user, 0) + 1
                return self._free.pop()
            finally:
                del self._line[ticket]
                self._changed.notify_all()  # another may be next now

    def _admit(self, user: str) -> None:
        if not user:
            return
        wait_s = self._ledger.wait_s(user)
        if wait_s > 0:
            raise ComeBackLaterError(
                f"'{user}' has used the {self._ledger.seconds:g} s that a user may have here to "
                f"{self._what} in {self._ledger.window_s:g} s",
                wait_s=math.ceil(wait_s),
                of_user=True,
            )
        if sum(1 for one in self._line.values() if one == user) >= self._most_waiting:
            raise ComeBackLaterError(
                f"'{user}' has {self._most_waiting} requests waiting to {self._what}",
                wait_s=5,
                of_user=True,
            )

    def _is_next(self, ticket: object) -> bool:
        if not self._free:
            return False
        ready = [
            (self._ledger.level(user) if user else 0.0, number, one)
            for number, (one, user) in enumerate(self._line.items())
            if not user or self._held.get(user, 0) < self._most_of_one
        ]
        return bool(ready) and min(ready, key=lambda r: r[:2])[2] is ticket
