"""The processes of a lab, each on a host of its own, started again when they end."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from tests.chaos.lab import NETWORK, Host, Lab
from tests.db.postgres_server import programs, server_user
from tuner.conformance.patience import PATIENCE_S

RESTART_S = 1.0
HVXTUNE = [sys.executable, "-m", "service.cli"]
USERS = ("ann", "bob", "cid")
_DISK_MB = {"database": 256}


@dataclass
class Role:
    """A host and what runs on it. ``held`` while a fault keeps it from being started."""

    host: Host
    command: Sequence[str]
    environment: Mapping[str, str]
    user: str = ""
    held: bool = False
    starts: int = 0


class Cluster:
    """PostgreSQL, a service, conductors, a Dask scheduler and workers. Only the workers have a
    simulator. A context: starts and looks after them."""

    def __init__(self, lab: Lab, *, conductors: int, workers: int, lease_s: float) -> None:
        self.lab = lab
        running = [f"conductor{n + 1}" for n in range(conductors)]
        working = [f"worker{n + 1}" for n in range(workers)]
        names = ["database", "service", "scheduler", *running, *working]
        hosts = {name: lab.add(name, _DISK_MB.get(name, 512)) for name in names}
        self.roles: dict[str, Role] = {}
        self.tokens: dict[str, str] = {}
        self._leave = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper")
        self.database_url = f"postgresql://hvxtune@{hosts['database'].address}/hvxtune"
        shared = {
            "HVXTUNE_DATABASE_URL": self.database_url,
            "HVXTUNE_ARTIFACTS": "database:",
            "HVXTUNE_LEASE_S": str(lease_s),
            "HVXTUNE_EXECUTOR": f"dask://{hosts['scheduler'].address}:8786",
            "HVXTUNE_QEMU": "/bin/false",
        }
        self._make_database(hosts["database"])
        serve = ["serve", "--host", "0.0.0.0", "--port", "8100", "--conductors", "0"]  # noqa: S104 - within the lab
        self.service = f"http://{hosts['service'].address}:8100"
        self._shared = shared
        self._add("service", hosts["service"], [*HVXTUNE, *serve], shared)
        for name in running:
            run = ["cluster", "conductor", "--slots", "2", "--workers", "2"]
            self._add(name, hosts[name], [*HVXTUNE, *run], shared)
        listen = ["cluster", "scheduler", "--host", hosts["scheduler"].address]
        self._add("scheduler", hosts["scheduler"], [*HVXTUNE, *listen], {})
        for name in working:
            place = f"{hosts['scheduler'].address}:8786"
            work = ["cluster", "worker", "--scheduler", place, "--slots", "2", "--name", name]
            self._add(name, hosts[name], [*HVXTUNE, *work], {})

    def __enter__(self) -> Cluster:
        self._keeper.start()
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        self._until(self._has_database, "the database")
        make = [*HVXTUNE, "token", "create", "--scope", "submit", "--scope", "read", "--json"]
        for user in USERS:
            said = self.roles["service"].host.run([*make, "--name", user], self._shared)
            self.tokens[user] = json.loads(said)["token"]
        self._until(lambda: self.ask("GET", "/readyz") is not None, "the service")
        self._until(self._has_workers, "the workers")

    def __exit__(self, *exception: object) -> None:
        self._leave.set()
        self._keeper.join()
        for role in self.roles.values():
            role.host.plug(into=True)
            role.host.kill()

    def connect(self) -> psycopg.Connection[Any]:
        """To the database, from outside of all hosts."""
        return psycopg.connect(self.database_url, autocommit=True, connect_timeout=2)

    def submit(self, user: str, body: Mapping[str, Any], key: str, within_s: float) -> str:
        """The job that ``body`` asks for. Repeated until the service answers, as clients do: the
        ``key`` makes that safe. ``TimeoutError`` with the logs after ``within_s`` without one."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if made := self.ask("POST", "/v1/jobs", user, body, {"Idempotency-Key": key}):
                [job] = made["jobs"]
                return str(job["job"])
            time.sleep(0.5)
        raise TimeoutError(f"no answer to a submission in {within_s:.0f} s\n{self.logs()}")

    def ask(
        self,
        method: str,
        path: str,
        user: str = USERS[0],
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The service's answer as JSON, bytes if it is none; ``None`` if there is no good one."""
        request = urllib.request.Request(  # noqa: S310 - an address of the lab
            self.service + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Bearer {self.tokens[user]}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=5.0) as answer:  # noqa: S310
                data = answer.read()
                kind = answer.headers.get("Content-Type", "")
        except (OSError, http.client.HTTPException):  # the second: killed in mid-answer
            return None
        return json.loads(data) if kind.startswith("application/json") else data

    def lost_objects(self) -> str:
        """What a look at the bytes of every object finds wrong; empty if nothing."""
        verify = [*HVXTUNE, "db", "artifacts", "--verify", "--json"]
        found = json.loads(self.roles["service"].host.run(verify, self._shared))
        return ", ".join([*found["missing"], *found["damaged"]])

    def begin(self, kind: str, name: str, amount: float) -> None:
        """A fault begins."""
        import signal

        role = self.roles[name]
        if kind == "kill":
            role.held = True
            role.host.kill()
        elif kind == "freeze":
            role.host.signal(signal.SIGSTOP)
        elif kind == "partition":
            role.host.plug(into=False)
        elif kind == "full disk":
            role.host.fill_disk()
        else:
            role.host.set_clock(amount)

    def end(self, kind: str, name: str) -> None:
        """It ends."""
        import signal

        role = self.roles[name]
        if kind == "kill":
            role.held = False
        elif kind == "freeze":
            role.host.signal(signal.SIGCONT)
        elif kind == "partition":
            role.host.plug(into=True)
        elif kind == "full disk":
            role.host.free_disk()
        else:
            role.host.set_clock(0.0)

    def _add(
        self,
        name: str,
        host: Host,
        command: Sequence[str],
        environment: Mapping[str, str],
        user: str = "",
    ) -> None:
        self.roles[name] = Role(host, command, environment, user)

    def _make_database(self, host: Host) -> None:
        folder = programs()
        user = server_user() or ""
        assert folder is not None
        data = host.folder / "data"
        data.mkdir(mode=0o700)
        if user:
            import shutil

            shutil.chown(data, user)
            shutil.chown(host.folder / "tmp", user)
        initdb = [str(folder / "initdb"), "-D", str(data), "-U", "hvxtune", "-A", "trust"]
        made = host.start([*initdb, "--no-sync", "--wal-segsize=1"], user=user)
        assert made.wait(PATIENCE_S) == 0, host.log.read_text()
        with (data / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {NETWORK}0/24 trust\n")
        settings = [
            "listen_addresses=*",
            f"unix_socket_directories={host.folder / 'tmp'}",
            "max_wal_size=32MB",
            "min_wal_size=2MB",
            "max_connections=100",
            # A client that was cut off must not hold its locks for hours.
            "tcp_keepalives_idle=5",
            "tcp_keepalives_interval=2",
            "tcp_keepalives_count=3",
            "tcp_user_timeout=10000",
            "idle_in_transaction_session_timeout=10000",
        ]
        options = [part for one in settings for part in ("-c", one)]
        self._add("database", host, [str(folder / "postgres"), "-D", str(data), *options], {}, user)

    def _has_database(self) -> bool:
        try:
            with psycopg.connect(
                self.database_url.rpartition("/")[0] + "/postgres",
                autocommit=True,
                connect_timeout=2,
            ) as connection:
                there = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'hvxtune'")
                if there.fetchone() is None:
                    connection.execute("CREATE DATABASE hvxtune")
        except psycopg.Error:
            return False
        return True

    def _has_workers(self) -> bool:
        listed = self.ask("GET", "/v1/conductors") or {"items": []}
        return any(one["fit"] for one in listed["items"])

    def _until(self, true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"{what} did not start: {self.logs()}"
            time.sleep(0.1)

    def logs(self, characters: int = 2000) -> str:
        """The ends of all logs, for people."""
        return "\n".join(
            f"== {name}\n{role.host.log.read_text(errors='replace')[-characters:]}"
            for name, role in self.roles.items()
            if role.host.log.exists()
        )

    def _keep(self) -> None:
        while not self._leave.wait(RESTART_S):
            for role in self.roles.values():
                running = [one for one in role.host.running if one.poll() is None]
                if not running and not role.held:
                    role.starts += 1
                    role.host.running.clear()
                    role.host.start(role.command, role.environment, role.user)
