"""A worker, and a scheduler, as processes: their start, and their end by signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tuner.errors import ToolchainError
from tuner.executor.cluster.connection import CONNECT_S, REPORT, find_place, require_dask
from tuner.executor.cluster.encryption import certificates_for
from tuner.executor.cluster.offers import Offer, examine
from tuner.executor.cluster.tasks import OPENED
from tuner.machine.addresses import address_towards, in_url

if TYPE_CHECKING:
    from distributed import Scheduler, Worker

EXAMINE_S = 10.0
"""How often a worker looks again at what it can do."""
WORKER_TTL_S = 30.0
"""A worker that was silent for this long is given up: its candidates run elsewhere."""
LOST_WORKERS = 1
"""Workers that a candidate may take with it and be run once more: with the next it is over."""
LEAVE_S = 60.0
"""How long a worker that was told to leave finishes candidates and hands over answers that no job
has fetched yet. What is left then is done again elsewhere."""
KILLED = 137
"""Exit status after a second signal: that of a killed process."""
_UNWATCHED = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
"""By default Dask looks 100 times a second at what a worker executes, 50 times at how late its
event loop is, and twice at the machine. That was half of the processor time of a worker whose calls
sleep half a second."""
_NOWHERE = "127.0.0.1:0"
"""Dask insists on an HTTP server beside each process: without any route, for this machine alone."""
_log = logging.getLogger("hvxtune.worker")


def run_scheduler(host: str, port: int, announce: Callable[[str], None]) -> None:
    """Runs a scheduler at ``host`` and ``port`` (0: any free one) until SIGTERM or SIGINT.
    ``announce`` receives ``HOST:PORT``, as executors and workers need it, once it listens.

    Raises what :func:`certificates_for` raises, and ``ToolchainError`` if it cannot listen.
    """
    certificates = certificates_for(host, f"--host '{host}'")
    scheduler_class, _ = _classes()

    async def run() -> None:
        scheduler: Scheduler = scheduler_class(
            host=in_url(host),
            port=port,
            protocol="tls" if certificates else "tcp",
            security=certificates.security if certificates else None,
            dashboard=False,
            dashboard_address=_NOWHERE,
            allowed_failures=LOST_WORKERS,
            worker_ttl=WORKER_TTL_S,
        )
        try:
            await scheduler
        except (OSError, RuntimeError) as error:  # Dask hides the first in the second
            why = error.__cause__ or error
            raise ToolchainError(
                f"cannot listen on {host}:{port}: {getattr(why, 'strerror', None) or why}",
                next_step="choose another --port, or end what listens there",
            ) from None
        announce(scheduler.address.partition("://")[2])
        await _until_signal(scheduler.close)

    asyncio.run(run())


def run_worker(scheduler: str, *, slots: int, host: str | None, name: str) -> None:
    """Offers this machine to the scheduler at ``scheduler`` (``HOST:PORT``) until SIGTERM or
    SIGINT: then the candidates in flight are finished. It listens on ``host`` alone, by default the
    address by which it reaches the scheduler.

    Raises what :func:`find_place` and :func:`certificates_for` raise, and ``ToolchainError`` if the
    scheduler cannot be reached; later it is waited for.
    """
    place = find_place(scheduler, "--scheduler")
    if host is None:
        host = address_towards(place.host, place.port)
    else:
        certificates_for(host, f"--host '{host}'")
    _, worker_class = _classes()
    offer = examine()
    _tell(None, offer)

    async def run() -> None:
        nonlocal offer

        async def report(_worker: Worker) -> dict[str, Any]:
            return asdict(offer)

        with tempfile.TemporaryDirectory(prefix="hvxtune-worker-") as scratch:
            worker: Worker = worker_class(
                place.address,
                nthreads=slots,
                name=name,
                host=in_url(host),
                protocol="tls" if place.certificates else "tcp",
                security=place.certificates.security if place.certificates else None,
                local_directory=scratch,
                memory_limit=0,  # candidates have limits of their own, in processes of their own
                death_timeout=CONNECT_S,
                dashboard=False,
                dashboard_address=_NOWHERE,
                resources=dict.fromkeys(offer.resources, float(slots)),
                metrics={REPORT: report},
            )
            try:
                await worker
            except (OSError, TimeoutError) as error:
                raise ToolchainError(
                    f"the scheduler {scheduler} cannot be reached: {error}",
                    next_step="start it with `hvxtune cluster scheduler`, or check its TLS",
                ) from None
            _log.info("%s: %d slots at %s", name, slots, scheduler)

            async def look() -> None:
                nonlocal offer
                while worker.status.name == "running":
                    await asyncio.sleep(EXAMINE_S)
                    found = await asyncio.to_thread(examine)
                    if found != offer:
                        _tell(offer, found)
                        gone = dict.fromkeys(offer.resources - found.resources, 0.0)
                        offer = found
                        now = dict.fromkeys(found.resources, float(slots))
                        await worker.set_resources(**{**gone, **now})

            looking = asyncio.create_task(look())
            ended = asyncio.create_task(worker.finished())
            await _until_signal(lambda: _leave(worker), or_until=ended)
            looking.cancel()

    with closing(OPENED):
        asyncio.run(run())
    _log.info("left")


async def _leave(worker: Worker) -> None:
    """Takes no more candidates, finishes those in flight, hands their answers over, and closes.

    Dask's own ``close_gracefully`` gives candidates in flight to others at once, and waits forever
    if the others cannot fetch an answer.
    """
    from distributed.core import Status

    with suppress(TimeoutError, OSError):  # the second: the scheduler is gone
        async with asyncio.timeout(LEAVE_S):
            worker.status = Status.closing_gracefully
            while worker.state.executing_count:
                await asyncio.sleep(0.05)
            await worker.scheduler.retire_workers(
                workers=[worker.address],
                close_workers=False,
                remove=True,
                stimulus_id=f"leave-{worker.name}",
            )
    await worker.close()


def _classes() -> tuple[type[Scheduler], type[Worker]]:
    """Dask's, told to serve nothing over HTTP, to watch themselves no more than is of use without a
    dashboard, and to say no more than is worth reading."""
    require_dask()
    import dask
    from distributed import Scheduler, Worker

    routes: dict[str, list[str]] = {
        f"distributed.{role}.http.routes": [] for role in ("scheduler", "worker")
    }
    dask.config.set({**routes, **_UNWATCHED})
    logging.getLogger("distributed").setLevel(logging.WARNING)
    return Scheduler, Worker


async def _until_signal(
    close: Callable[[], Awaitable[Any]], or_until: asyncio.Task[Any] | None = None
) -> None:
    """Waits for a signal (or a task), then closes; a second signal ends the process at once."""
    leave = asyncio.Event()

    def ask() -> None:
        if leave.is_set():
            os._exit(KILLED)
        leave.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    waiting = [asyncio.create_task(leave.wait()), *([or_until] if or_until else [])]
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if leave.is_set():
        await close()


def _tell(before: Offer | None, found: Offer) -> None:
    """A line in the log when something has changed."""
    if before is not None and before.lacks == found.lacks and before.without == found.without:
        return
    if found.fit:
        names = dict.fromkeys(one.name for one in found.measurers)
        _log.info("fit: measures with %s", ", ".join(names))
    else:
        _log.error("unfit, is given nothing: %s", "; ".join(one.text for one in found.lacks))
