"""The health of a service: figures for Prometheus, and whether it can do its work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import accumulate
from typing import Any, cast

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from db.sql_store import SqlStore
from db.tallies import BUCKETS_S, Tallies, Times, count_all
from tuner.errors import StoreError
from tuner.executor import DEFAULT_EXECUTOR

CONTENT_TYPE = CONTENT_TYPE_LATEST
_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE = "(none)"
_FRESH_S = 1.0
_SHARE = 20
"""Counts are kept for this many times the time that counting took: at most 5 % of a thread."""


class Metrics:
    """The registry of one service: its requests, and what its database holds."""

    def __init__(self, store: SqlStore, conductors_alive: Callable[[], int]) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._latency = Histogram(
            "hvxtune_request_seconds",
            "Time from a request's head to the end of its answer.",
            ["method", "route", "status"],
            buckets=_BUCKETS_S,
            registry=self._registry,
        )
        # The histogram's own look-up by labels takes a lock and formats them each time.
        self._observers: dict[tuple[str, str, int], Callable[[float], None]] = {}
        self._registry.register(_FromDatabase(store, conductors_alive))

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes one answered request."""
        key = (method, route, status)
        observe = self._observers.get(key)
        if observe is None:
            observe = self._latency.labels(method, route, str(status)).observe
            self._observers[key] = observe
        observe(seconds)

    def text(self) -> bytes:
        """All metrics in Prometheus's text form. Blocks: reads the database."""
        return generate_latest(self._registry)


class _FromDatabase:
    """Gauges and counts, taken when they are read."""

    def __init__(self, store: SqlStore, conductors_alive: Callable[[], int]) -> None:
        self._store = store
        self._conductors_alive = conductors_alive
        self._lock = threading.Lock()
        self._counted: Tallies | None = None
        self._until = 0.0

    def collect(self) -> Iterator[Metric]:
        """The metric families; those of the database only while it answers."""
        yield GaugeMetricFamily(
            "hvxtune_conductors_alive",
            "Conductor processes of this service that run.",
            value=self._conductors_alive(),
        )
        try:
            counted = self._counts()
        except StoreError:
            yield GaugeMetricFamily("hvxtune_database_up", "1 if the database answers.", value=0)
            return
        yield GaugeMetricFamily("hvxtune_database_up", "1 if the database answers.", value=1)
        yield from _families(counted)

    def _counts(self) -> Tallies:
        with self._lock:
            began = time.monotonic()
            if self._counted is None or began >= self._until:
                self._counted = count_all(self._store)
                now = time.monotonic()
                self._until = now + max(_FRESH_S, _SHARE * (now - began))
            return self._counted


def _families(counted: Tallies) -> Iterator[Metric]:
    yield _gauge("hvxtune_jobs", "Jobs by state; the queue is 'queued'.", "state", counted.jobs)
    yield _counter("hvxtune_trials", "Finished trials by outcome.", "outcome", counted.trials)
    stored = {"valid": counted.schedules, "quarantined": counted.quarantined}
    yield _gauge("hvxtune_schedules", "Stored schedules.", "state", stored)
    # The simulator inside every worker is up when the service is: one line, beside the farm's.
    devices = {("embedded", "ready"): 1, **counted.devices}
    yield _gauge("hvxtune_devices", "Measuring devices by state.", "kind state", devices)
    for name, about, field in (
        ("trials", "Candidates run.", "trials"),
        ("faults", "Faults of devices.", "faults"),
        ("busy_seconds", "Time in which devices ran candidates.", "busy_s"),
    ):
        found = {kind: getattr(work, field) for kind, work in counted.work.items()}
        yield _counter(f"hvxtune_device_{name}", about, "kind", found)
    yield GaugeMetricFamily(
        "hvxtune_queue_oldest_seconds",
        "How long the oldest queued job has waited since it was submitted; 0 without one.",
        value=counted.oldest_s,
    )
    yield GaugeMetricFamily(
        "hvxtune_candidates_in_flight",
        "Candidates of running jobs that were handed out and lack an outcome.",
        value=counted.in_flight,
    )
    yield from _of_executors(counted)
    compiled, measured = "Time to compile a candidate.", "Time to link, run and verify a candidate."
    yield _histogram("hvxtune_compile_seconds", compiled, "generator", counted.compile)
    yield _histogram("hvxtune_measure_seconds", measured, "measurer", counted.measure)


def _of_executors(counted: Tallies) -> Iterator[Metric]:
    fit = [one for one in counted.conductors if one.fit]
    states = {"fit": len(fit), "unfit": len(counted.conductors) - len(fit)}
    yield _gauge("hvxtune_conductors", "Conductors on this database.", "state", states)
    yield GaugeMetricFamily(
        "hvxtune_conductor_slots",
        "Jobs that fit conductors run at once.",
        value=sum(one.slots for one in fit),
    )
    workers, slots = {}, {}
    for executor in dict.fromkeys(one.executor for one in fit if one.executor):
        theirs = [one.capacity for one in fit if one.executor == executor]
        # Threads are each conductor's own; a cluster is shared, and looked at by each.
        total = sum if executor == DEFAULT_EXECUTOR else max
        workers[executor] = total([one.workers for one in theirs])
        slots[executor] = total([one.slots for one in theirs])
    about = "Processes that compile and measure for fit conductors."
    yield _gauge("hvxtune_executor_workers", about, "executor", workers)
    about = "Candidates that these take at once."
    yield _gauge("hvxtune_executor_slots", about, "executor", slots)


def _gauge(
    name: str, about: str, labels: str, found: Mapping[Any, float], kind: Any = GaugeMetricFamily
) -> Metric:
    """A family with a line for each of ``found``, whose keys are the values of ``labels``."""
    family = kind(name, about, labels=labels.split())
    for values, count in found.items():
        family.add_metric([values] if isinstance(values, str) else list(values), count)
    return cast("Metric", family)


_counter = partial(_gauge, kind=CounterMetricFamily)


def _histogram(name: str, about: str, label: str, times: Mapping[str, Times]) -> Metric:
    family = HistogramMetricFamily(name, about, labels=[label])
    limits = [*(str(limit) for limit in BUCKETS_S), "+Inf"]
    for value, found in times.items():
        counts = accumulate(found.counts)
        family.add_metric([value], list(zip(limits, counts, strict=True)), found.sum_s)
    return family


class MetricsMiddleware:
    """Times every request, by the template of its route. Plain ASGI: a few microseconds, where
    Starlette's ``BaseHTTPMiddleware`` takes as long as an empty route."""

    def __init__(self, app: ASGIApp, metrics: Metrics, root_path: str = "") -> None:
        self._app = app
        self._metrics = metrics
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            method: str = scope["method"]
            route = getattr(scope.get("route"), "path", _NO_ROUTE)
            self._metrics.observe(
                method if method in _METHODS else "other",
                # Where an application is mounted in ours, wherever a proxy publishes that.
                scope.get("root_path", "").removeprefix(self._root_path) + route,
                status,
                time.perf_counter() - began,
            )


BELIEVED_S = 5.0
FAILURE_BELIEVED_S = 1.0
PATIENCE_S = 5.0
"""A database that takes longer counts as unavailable."""


class Readiness:
    """Proves that the store can be written to, and believes it for some seconds. In a thread of its
    own: those of the routes may all be busy."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, "readiness")
        self._proof: Future[None] | None = None
        self._until = 0.0

    async def require(self) -> None:
        """``StoreError`` says what cannot be written."""
        if self._proof is None or (self._proof.done() and time.monotonic() >= self._until):
            self._proof = self._thread.submit(self._store.prove_writable)
            self._proof.add_done_callback(self._proved)
        try:
            proof = asyncio.shield(asyncio.wrap_future(self._proof))
            await asyncio.wait_for(proof, PATIENCE_S)
        except TimeoutError:
            raise StoreError(
                f"the database {self._store.place.name} has taken no write for {PATIENCE_S:g} s",
                next_step="check what else writes to it, and whether its disk hangs",
            ) from None

    def _proved(self, proof: Future[None]) -> None:
        failed = not proof.cancelled() and proof.exception() is not None
        self._until = time.monotonic() + (FAILURE_BELIEVED_S if failed else BELIEVED_S)
