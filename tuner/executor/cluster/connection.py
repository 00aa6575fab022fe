"""The connection of a process to a Dask cluster, shared by all jobs of the process."""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tuner.errors import DeviceError, OutOfTimeError, ToolchainError, UserError
from tuner.executor.cluster.encryption import Certificates, certificates_for
from tuner.executor.cluster.offers import MeasurerOffer, Offer
from tuner.executor.cluster.tasks import Answer, followed
from tuner.log_ids import ids
from tuner.machine.addresses import in_url
from tuner.machine.fitness import Abilities, Capacity, Examined, Lack, Worker
from tuner.measure.measurer import DEVICE_ATTEMPTS
from tuner.records.documents import read_record

if TYPE_CHECKING:
    from distributed import Client, Future

T = TypeVar("T")

SCHEME: Final = "dask"
REPORT = "hvxtune"
"""The metric of a worker that holds its offer."""
CONNECT_S = 10.0
_LOOK_S = 1.0
"""How often waiting calls look whether anyone can still do them; how old a list of workers gets."""
MOST_LISTED = 100
"""Workers that a conductor names: it writes their names to the database every few seconds."""
NOBODY_S = 30.0
"""How long a call waits for a worker that can do it, before its job goes back to the queue."""


@dataclass(frozen=True)
class Place:
    """Where a scheduler listens, and the certificates with which it is spoken to."""

    host: str
    port: int
    certificates: Certificates | None

    @property
    def address(self) -> str:
        """As Dask has it: ``tcp://HOST:PORT``, ``tls://[HOST]:PORT``."""
        return f"{'tls' if self.certificates else 'tcp'}://{in_url(self.host)}:{self.port}"


def find_place(text: str, named: str = "executor") -> Place:
    """The scheduler at ``dask://HOST:PORT``, or for a worker at ``HOST:PORT``. ``named`` is how the
    user gave it. ``UserError`` for anything else, and for a host that :func:`certificates_for`
    refuses; ``ToolchainError`` without Dask."""
    host, _, port = text.removeprefix(f"{SCHEME}://").rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(
            f"{named} '{text[:200]}'",
            accepted="threads, or dask://HOST:PORT" if named == "executor" else "HOST:PORT",
            next_step="HOST:PORT is where `hvxtune cluster scheduler` listens, usually port 8786",
        )
    require_dask()
    return Place(host, int(port), certificates_for(host, f"{named} '{text}'"))


def require_dask() -> None:
    """``ToolchainError`` without it."""
    if find_spec("distributed") is None:
        raise ToolchainError(
            "a cluster needs the package 'distributed'", next_step="pip install 'hvxtune[dask]'"
        )


class Cluster:
    """The workers that one scheduler has. Safe for several threads."""

    def __init__(self, name: str) -> None:
        """``name`` is the address as the user wrote it. Connects when first needed. Raises what
        :func:`find_place` raises."""
        self.name = name
        self._place = find_place(name)
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._session = uuid.uuid4().hex[:8]
        self._numbers = itertools.count()
        self._listed: tuple[float, list[tuple[str, int, Offer]]] = (-1e9, [])

    @property
    def client(self) -> Client:
        """Connected; ``ToolchainError`` if the scheduler cannot be reached."""
        from distributed import Client

        with self._lock:
            if self._client is not None and self._client.status in ("closed", "closing"):
                self._client = None
            if self._client is None:
                given = self._place.certificates
                try:
                    self._client = Client(
                        self._place.address,
                        security=given.security if given else None,
                        timeout=CONNECT_S,
                        set_as_default=False,
                        name=f"hvxtune-{os.getpid()}",
                    )
                except (OSError, TimeoutError, RuntimeError, TypeError) as error:
                    raise self._unreachable(error) from None
            return self._client

    def _unreachable(self, error: BaseException) -> ToolchainError:
        why = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        return ToolchainError(
            f"the scheduler {self.name} cannot be reached: {why}",
            next_step="start it with `hvxtune cluster scheduler`, or check its address and TLS",
        )

    def workers(self) -> list[tuple[str, int, Offer]]:
        """Name, slots and offer of each worker present, fit or not; a second old at most."""
        with self._lock:
            looked_at, found = self._listed
        if time.monotonic() - looked_at < _LOOK_S:
            return found
        try:
            listed = self.client.scheduler_info(n_workers=-1)["workers"]
        except (OSError, TimeoutError, RuntimeError) as error:
            raise self._unreachable(error) from None
        found = [
            (str(one["name"]), int(one["nthreads"]), read_record(Offer, one["metrics"][REPORT]))
            for one in listed.values()
            if REPORT in one.get("metrics", {})
        ]
        with self._lock:
            self._listed = (time.monotonic(), found)
        return found

    def measurer(self, name: str, cache: str, on: str = "") -> MeasurerOffer:
        """The measurer as most workers have it, of a farm with a device tagged ``on``; targets are
        those that any of them runs.

        ``ToolchainError`` if no worker has it, with what they lack.
        """
        offers = [
            (one, slots)
            for _, slots, offer in self.workers()
            if offer.fit
            for one in offer.measurers
            if (one.name, one.cache) == (name, cache) and one.serves(on)
        ]
        if not offers:
            what = f"a device tagged '{on}'" if on else f"{name} with {cache} caches"
            raise self._nobody(f"has {what}", name)
        counted = Counter[str]()
        for one, slots in offers:
            counted[one.digest] += slots
        digest = max(sorted(counted), key=lambda one: counted[one])
        same = [one for one, _ in offers if one.digest == digest]
        targets = tuple(dict.fromkeys(target for one in same for target in one.targets))
        return MeasurerOffer(**{**vars(same[0]), "targets": targets})

    def slots(self, resource: str) -> int:
        """How many calls that need ``resource`` run at once."""
        return sum(slots for _, slots, offer in self.workers() if resource in offer.resources)

    def examine(self) -> Examined:
        """The abilities of all workers together; why they have none, if so."""
        try:
            workers = self.workers()
        except ToolchainError as error:
            return Examined(Abilities(), (Lack("executor", str(error)),))
        slots = [slots for _, slots, offer in workers if offer.fit]
        fit = [offer for _, _, offer in workers if offer.fit]
        able = dict.fromkeys(name for one in fit for name in one.examined.abilities.measurers)
        devices = dict.fromkeys(tags for one in fit for tags in one.devices)
        lacks = () if fit else (Lack("workers", str(self._nobody("can run jobs", ""))),)
        without = dict.fromkeys(
            lack for one in fit for lack in one.without if lack.part not in able
        )
        return Examined(
            Abilities(tuple(able), tuple(devices)),
            lacks,
            tuple(without),
            Capacity(len(fit), sum(slots)),
            tuple(
                Worker(name, count, offer.examined.abilities.measurers, offer.lacks)
                for name, count, offer in sorted(workers, key=lambda one: (one[2].fit, one[0]))
            )[:MOST_LISTED],
        )

    def _nobody(self, can: str, part: str) -> ToolchainError:
        workers = self.workers()
        reasons = [
            f"{name}: {lack.text}"
            for name, _, offer in workers
            for lack in (*offer.lacks, *offer.without)
            if not offer.fit or lack.part == part
        ]
        found = "; ".join(dict.fromkeys(reasons)) or (
            f"{len(workers)} workers, of other versions" if workers else "there are no workers"
        )
        return ToolchainError(
            f"no worker of {self.name} {can} ({found})",
            next_step="start one with `hvxtune cluster worker --scheduler HOST:PORT`",
        )

    def begin(
        self, call: Callable[..., Answer[T]], *arguments: Any, needs: Sequence[str]
    ) -> Future[Any]:
        """Starts a call on a worker that has all of ``needs``. Each has a key of its own: an answer
        of an earlier attempt is never taken for one of this."""
        key = f"{call.__name__}-{self._session}-{next(self._numbers)}"
        return self.client.submit(
            followed,
            dict(ids()),
            call,
            *arguments,
            key=key,
            resources=dict.fromkeys(needs, 1.0),
            pure=False,
        )

    def wait(
        self, future: Future[Any], needs: Sequence[str], given_up: threading.Event
    ) -> Answer[Any]:
        """Waits for the answer.

        Raises ``OutOfTimeError`` once ``given_up`` is set, ``ToolchainError`` if the scheduler is
        lost or nobody can do it for :data:`NOBODY_S`, ``DeviceError`` if it ended two workers.
        """
        from concurrent.futures import CancelledError

        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        alone_since: float | None = None
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        while True:
            try:
                if done.wait(_LOOK_S):
                    answer: Answer[Any] = future.result()
                    return answer
            except KilledWorker as error:
                raise DeviceError(
                    f"workers were lost while they ran it, the last was {error.last_worker.name}",
                    attempts=DEVICE_ATTEMPTS,
                ) from None
            except (CancelledError, FutureCancelledError, CommClosedError) as error:
                if given_up.is_set():
                    raise OutOfTimeError("given up") from None
                raise self._unreachable(error) from None
            if given_up.is_set():
                future.cancel()
                raise OutOfTimeError("given up")
            if all(self.slots(one) for one in needs):
                alone_since = None
                continue
            alone_since = alone_since or time.monotonic()
            if time.monotonic() - alone_since > NOBODY_S:
                future.cancel()
                raise self._nobody(f"can do {' with '.join(needs)}", "")


@lru_cache(maxsize=4)
def cluster(name: str) -> Cluster:
    """The one of this process at the address ``name``."""
    return Cluster(name)
