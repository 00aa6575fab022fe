"""A laboratory as a network of queues, event by event.

PostgreSQL is at the root; conductors run jobs; each scheduler has a group of devices and the
processors that compile for it. A job does what :class:`tuner.search.loop.TuningLoop` does: takes
all that has landed, asks for as many candidates, hands them out, commits both in one transaction,
and waits for the next to land. Jobs never end, so a figure is that of a busy laboratory.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import simpy

from benchmarks.scaling.costs import Costs
from tuner.executor.cluster.executor import AHEAD

HEARTBEAT_S = 1.0
"""How often a job looks whether it should stop."""
KINDS = ("devices", "compilers", "schedulers", "conductors", "database")

Steps = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Lab:
    """``run_s`` is a device's time for one candidate, drawn with ``run_cv`` around it."""

    devices: int
    run_s: float
    run_cv: float = 0.3
    devices_per_scheduler: int = 64
    devices_per_job: int = 16
    """Each job has a conductor for itself."""
    ahead: float = AHEAD
    compilers_per_device: float = 0.5
    """Processors."""
    database_processors: int = 4
    commit_every_s: float = 0.0
    """A job waits this long for more to land before it commits."""
    trials_per_job: float = math.inf


@dataclass
class Visits:
    """What passed a kind of station, in the part of the time that counts."""

    servers: int = 0
    count: int = 0
    waited_s: float = 0.0
    busy_s: float = 0.0
    stayed_s: float = 0.0
    present_s: float = 0.0
    """Visitors present, integrated over time: counted apart from ``stayed_s``."""

    def forget(self) -> None:
        """Counts from now."""
        self.count = 0
        self.waited_s = self.busy_s = self.stayed_s = self.present_s = 0.0


class Station:
    """``servers`` alike, first come, first served. Stations of one kind share ``visits``."""

    def __init__(self, env: simpy.Environment, servers: int, visits: Visits) -> None:
        self._env = env
        self._servers = simpy.Resource(env, servers)
        self._visits = visits
        self._present = 0
        self._counted_at = env.now
        visits.servers += servers

    def serve(self, seconds: float) -> Steps:
        """Waits for a server and has it for ``seconds``."""
        if seconds <= 0:
            return
        env, visits = self._env, self._visits
        arrived = env.now
        self.count()
        self._present += 1
        with self._servers.request() as turn:
            yield turn
            visits.waited_s += env.now - arrived
            yield env.timeout(seconds)
            self.count()  # while its server is still taken
        self._present -= 1
        visits.count += 1
        visits.stayed_s += env.now - arrived

    def count(self) -> None:
        """Integrates over the time since the last count. No server is idle while
        somebody waits."""
        passed, self._counted_at = self._env.now - self._counted_at, self._env.now
        self._visits.present_s += self._present * passed
        self._visits.busy_s += min(self._present, self._servers.capacity) * passed


@dataclass(frozen=True)
class Result:
    """Of ``seconds`` of a laboratory in full work."""

    lab: Lab
    seconds: float
    begun: int
    trials: int
    """Committed."""
    transactions: int
    visits: dict[str, Visits]
    landed_wait_s: float
    """Mean time of a finished candidate until its job took it."""

    @property
    def throughput(self) -> float:
        """Trials a second."""
        return self.trials / self.seconds

    @property
    def ideal(self) -> float:
        """Trials a second of devices that never wait."""
        return self.lab.devices / self.lab.run_s

    @property
    def efficiency(self) -> float:
        """Share of the ideal."""
        return self.throughput / self.ideal

    @property
    def rows(self) -> float:
        """Rows written a second: each trial's, twice, and its object's."""
        return 3 * self.throughput

    def use(self, kind: str) -> float:
        """The busy share of a kind of server."""
        visits = self.visits[kind]
        return visits.busy_s / (visits.servers * self.seconds)

    def cost_s(self, kind: str) -> float:
        """A server's time for each trial."""
        return self.visits[kind].busy_s / self.trials if self.trials else 0.0

    def wait_s(self, kind: str) -> float:
        """Mean time in the queue of one visit."""
        visits = self.visits[kind]
        return visits.waited_s / visits.count if visits.count else 0.0


def drawn(rng: random.Random, mean: float, cv: float) -> float:
    """A time of this mean and coefficient of variation: gamma, exponential at 1, fixed at 0."""
    return mean if cv == 0 else rng.gammavariate(1 / cv**2, mean * cv**2)


def simulate(
    lab: Lab, costs: Costs, *, seconds: float = math.inf, warm_up_s: float = 0.0, seed: int = 1
) -> Result:
    """Runs ``lab`` for ``warm_up_s``, which do not count, and then ``seconds``; or, with endless
    seconds, until all jobs have had their trials."""
    running = _Running(lab, costs, seed)
    if seconds == math.inf:
        running.env.run()
        return running.result(running.env.now)
    if warm_up_s:
        running.env.run(until=warm_up_s)
        running.forget()
    running.env.run(until=warm_up_s + seconds)
    return running.result(seconds)


class _Running:
    """The state of one simulation."""

    def __init__(self, lab: Lab, costs: Costs, seed: int) -> None:
        self.env = simpy.Environment()
        self.visits = {kind: Visits() for kind in KINDS}
        self._lab, self._costs = lab, costs
        self._rng = random.Random(seed)
        self._stations: list[Station] = []
        self._database = self._station("database", lab.database_processors)
        self._zero()
        for group in _shares(lab.devices, lab.devices_per_scheduler):
            devices = self._station("devices", group)
            compilers = self._station("compilers", math.ceil(group * lab.compilers_per_device))
            scheduler = self._station("schedulers", 1)
            candidate = self._candidate(scheduler, compilers, devices)
            for share in _shares(group, lab.devices_per_job):
                self.env.process(self._job(candidate, math.ceil(share * lab.ahead)))

    def _station(self, kind: str, servers: int) -> Station:
        made = Station(self.env, servers, self.visits[kind])
        self._stations.append(made)
        return made

    def _zero(self) -> None:
        self._begun = self._trials = self._transactions = 0
        self._landed_wait_s = 0.0

    def forget(self) -> None:
        """Counts from now."""
        self._zero()
        for station in self._stations:
            station.count()
        for visits in self.visits.values():
            visits.forget()

    def result(self, seconds: float) -> Result:
        """What was counted."""
        for station in self._stations:
            station.count()
        return Result(
            lab=self._lab,
            seconds=seconds,
            begun=self._begun,
            trials=self._trials,
            transactions=self._transactions,
            visits=self.visits,
            landed_wait_s=self._landed_wait_s / self._trials if self._trials else 0.0,
        )

    def _candidate(
        self, scheduler: Station, compilers: Station, devices: Station
    ) -> Callable[[simpy.Store], Steps]:
        lab, costs, rng = self._lab, self._costs, self._rng

        def run(landed: simpy.Store) -> Steps:
            if costs.compile_s:
                yield from scheduler.serve(costs.scheduler_cpu_s)
                yield from compilers.serve(drawn(rng, costs.compile_s, costs.compile_cv))
            yield from scheduler.serve(costs.scheduler_cpu_s)
            yield from devices.serve(drawn(rng, lab.run_s, lab.run_cv))
            yield landed.put(self.env.now)

        return run

    def _job(self, candidate: Callable[[simpy.Store], Steps], in_flight: int) -> Steps:
        lab, costs, env = self._lab, self._costs, self.env
        conductor = self._station("conductors", 1)
        landed = simpy.Store(env)
        left = lab.trials_per_job
        calls = (2 if costs.compile_s else 1) * costs.call_cpu_s
        begin, ended, flying, looked_at = int(min(in_flight, left)), 0, 0, -HEARTBEAT_S
        if left == math.inf:  # jobs of a busy laboratory did not begin together
            yield env.timeout(self._rng.uniform(0.0, lab.run_s))
        while True:
            yield from conductor.serve(begin * calls + ended * costs.search_cpu_s)
            for _ in range(begin):
                env.process(candidate(landed))
            left, flying = left - begin, flying + begin
            self._begun += begin
            if env.now >= looked_at + HEARTBEAT_S:
                looked_at = env.now
                yield from self._database.serve(costs.heartbeat_cpu_s)
            rows = max(ended, begin)
            yield from conductor.serve(costs.commit_client_cpu_s + rows * costs.row_client_cpu_s)
            yield from self._database.serve(costs.commit_cpu_s + rows * costs.row_cpu_s)
            if costs.commit_wait_s:
                yield env.timeout(costs.commit_wait_s)
            self._transactions += 1
            self._trials += ended
            if not flying:
                return
            first = yield landed.get()
            if lab.commit_every_s:
                yield env.timeout(lab.commit_every_s)
            times = [first, *landed.items]
            landed.items.clear()
            self._landed_wait_s += sum(env.now - at for at in times)
            ended = len(times)
            flying -= ended
            begin = int(min(ended, left))


def _shares(total: int, each: int) -> list[int]:
    """``total`` in parts of ``each``; the last may be smaller."""
    return [min(each, total - first) for first in range(0, total, each)]
