"""Places on the event loop, in turn among callers, and a bound on how many may wait."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tuner.codegen.fairness import Ledger
from tuner.errors import ComeBackLaterError

_RETRY_S = 2.0


class Turns:
    """``places`` for one kind of work, on one event loop.

    A caller has at most ``each`` of them at a time. Of those who wait, the one that has used least
    lately goes first, by ``ledger``.
    """

    def __init__(self, places: int, each: int, ledger: Ledger) -> None:
        self._free = places
        self._each = each
        self._ledger = ledger
        self._held: Counter[str] = Counter()
        self._line: dict[asyncio.Future[None], str] = {}

    async def take(self, caller: str) -> Callable[[], None]:
        """Waits for a place; call the result once, from the loop's thread, to give it back."""
        if self._line or not self._may(caller):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._line[turn] = caller
            self._call_next()
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it was given while nobody waited
                    self._give_back(caller, 0.0)
                raise
            finally:
                self._line.pop(turn, None)
        else:
            self._hold(caller)
        began = time.monotonic()
        return lambda: self._give_back(caller, time.monotonic() - began)

    def _may(self, caller: str) -> bool:
        return self._free > 0 and self._held[caller] < self._each

    def _hold(self, caller: str) -> None:
        self._free -= 1
        self._held[caller] += 1

    def _give_back(self, caller: str, seconds: float) -> None:
        self._free += 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]
        self._ledger.charge(caller, seconds)
        self._call_next()

    def _call_next(self) -> None:
        while True:
            waiting = [
                (self._ledger.level(caller), number, turn)
                for number, (turn, caller) in enumerate(self._line.items())
                if self._may(caller) and not turn.done()
            ]
            if not waiting:
                return
            turn = min(waiting, key=lambda w: w[:2])[2]
            self._hold(self._line.pop(turn))
            turn.set_result(None)


class Crowd:
    """Admits at most ``most`` in all and ``each`` of one caller; others are told at once to come
    back. ``what`` names them in messages."""

    def __init__(self, what: str, most: int, each: int) -> None:
        self.what = what
        self.most = most
        self.each = each
        self._inside: Counter[str] = Counter()

    @property
    def inside(self) -> int:
        """The number admitted now."""
        return self._inside.total()

    @asynccontextmanager
    async def enter(self, caller: str) -> AsyncIterator[None]:
        """Admits ``caller`` while the context lasts; ``ComeBackLaterError`` if it is full."""
        if self._inside[caller] >= self.each:
            raise ComeBackLaterError(
                f"'{caller}' has {self.each} {self.what} under way; a caller may have no more",
                wait_s=_RETRY_S,
                of_user=True,
            )
        if self.inside >= self.most:
            raise ComeBackLaterError(
                f"{self.most} {self.what} are under way; the service takes no more at once",
                wait_s=_RETRY_S,
            )
        self._inside[caller] += 1
        try:
            yield
        finally:
            self._inside[caller] -= 1
            if not self._inside[caller]:
                del self._inside[caller]
