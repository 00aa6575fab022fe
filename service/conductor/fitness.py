"""Whether a conductor is fit to run jobs: it reaches all that they need, and lists itself so.

It is found out at the start and again every :data:`CHECK_S`: what was mounted, installed or set
right meanwhile counts without a restart, and what got lost keeps it from further jobs. An unfit
one claims nothing.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import version

from db.clock import database_now
from db.jobs.claims import lease_s, this_process
from db.jobs.conductors import Conductor, leave, renew
from db.schema import require_still_ours
from db.sql_store import SqlStore
from tuner.errors import HvxtuneError, StoreError
from tuner.executor import examine_executor, executor_address
from tuner.machine.fitness import Abilities, Examined, Lack

CHECK_S = 10.0
TOLERANCES_PER_LEASE = 6
"""How far this machine's clock may be from the database's, as a part of a lease. Leases of jobs end
by the clock of the one who looks, :func:`~db.jobs.claims.lease_s` after their last renewal, which
comes after half of that at the latest: a third of the rest is left for pauses of the network."""

_log = logging.getLogger("hvxtune.conductor")


class Fitness:
    """The fitness of this process as a conductor of ``store``, with ``slots``. ``tools`` and
    ``clock`` are replaced in tests. Safe from several threads."""

    def __init__(
        self,
        store: SqlStore,
        *,
        slots: int = 1,
        tools: Callable[[], Examined] = examine_executor,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._slots = slots
        self._tools = tools
        self._clock = clock
        self._id = uuid.uuid4().hex
        self._owner = this_process()
        self._found: Conductor | None = None
        self._listing = threading.Lock()
        self._left = False

    @property
    def fit(self) -> bool:
        """Whether it may take up jobs; not before the first :meth:`check`."""
        return self._found is not None and self._found.fit

    @property
    def abilities(self) -> Abilities:
        """The measurers and devices it has."""
        return Abilities() if self._found is None else self._found.abilities

    def can_run(self, measurer: str, on: str, promote_to: str) -> bool:
        """Whether a job with these options can run here."""
        return not self.abilities.lacking(measurer, on, promote_to)

    def check(self) -> Conductor:
        """Examines everything and lists the result. Errors of the database itself are for the
        one who needs it next: then nothing can be claimed either."""
        tools = self._tools()
        offset_s, of_database = self._examine_database()
        found = Conductor(
            id=self._id,
            owner=self._owner,
            slots=self._slots,
            version=version("hvxtune"),
            artifacts=self._store.files.storage.place,
            abilities=tools.abilities,
            lacks=(*of_database, *self._examine_artifacts(), *tools.lacks),
            without=tools.without,
            clock_offset_s=round(offset_s, 3),
            executor=executor_address(),
            capacity=tools.capacity,
            workers=tools.workers,
        )
        before, self._found = self._found, found
        _tell(before, found)
        try:
            with self._listing:
                if not self._left:
                    renew(self._store, found)
        except StoreError as error:
            _log.error("%s", error)
        return found

    def run(self, leave_now: threading.Event) -> None:
        """Checks again and again until ``leave_now`` is set."""
        while not leave_now.wait(CHECK_S):
            try:
                self.check()
            except HvxtuneError as error:
                _log.error("%s", error)

    def leave(self) -> None:
        """Takes this process off the list."""
        try:
            with self._listing:
                self._left = True
                leave(self._store, self._id)
        except StoreError as error:
            _log.error("%s", error)

    def _examine_database(self) -> tuple[float, list[Lack]]:
        """How far the clock is ahead of the database's, and what is wrong with either."""
        try:
            with self._store.reading() as session:
                of_schema = []
                try:
                    require_still_ours(session.connection())
                except StoreError as error:
                    of_schema = [Lack("schema", str(error))]
                before = self._clock()
                now = database_now(session)
                after = self._clock()
        except StoreError as error:
            return 0.0, [Lack("database", str(error))]
        offset_s = (before + after) / 2 - now
        return offset_s, [*of_schema, *_of_clock(offset_s, after - before)]

    def _examine_artifacts(self) -> Iterator[Lack]:
        try:
            self._store.prove_artifacts()
        except HvxtuneError as error:
            yield Lack("artifacts", str(error))


def _of_clock(offset_s: float, took_s: float) -> Iterator[Lack]:
    # Half of the question's way is not known to be one way's.
    tolerance_s = lease_s() / TOLERANCES_PER_LEASE
    if abs(offset_s) > tolerance_s + took_s / 2:
        way = "ahead of" if offset_s > 0 else "behind"
        yield Lack(
            "clock",
            f"this machine is {abs(offset_s):.1f} s {way} the database (accepted: "
            f"{tolerance_s:g} s); synchronize both by NTP",
        )


def _tell(before: Conductor | None, found: Conductor) -> None:
    """A line in the log when something has changed."""
    if before is not None and (before.lacks, before.without) == (found.lacks, found.without):
        return
    if found.fit:
        able = ", ".join(found.abilities.measurers)
        _log.info("fit to run jobs with %s; artifacts in %s", able, found.artifacts)
    else:
        _log.error("unfit, takes up no job: %s", found.reason)
