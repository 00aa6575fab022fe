"""What commands listen on: the kernel's list of sockets, for each that runs until it is stopped."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import typer

from service.cli.app import app
from service.client.connection import TOKEN_VARIABLE
from tuner.conformance.patience import PATIENCE_S, until
from tuner.executor.cluster.authority import make_certificates
from tuner.executor.cluster.encryption import TLS_VARIABLE
from tuner.paths import CACHE_DIR_VARIABLE, cache_dir

ROOT = Path(__file__).parents[3]
LISTENERS = {"serve", "docs", "scheduler", "worker"}
UNTIL_STOPPED: dict[str, tuple[str, str]] = {
    "serve": ("--port 0 --conductors 0", "listens on"),
    "docs": ("--port 0", "Ctrl-C ends it"),
    "scheduler": ("--port 0", "executor: "),
    "worker": ("--scheduler {scheduler} --slots 1", "1 slots at"),
    "conductor": ("--executor dask://{scheduler}", "fit"),
    "watch": ("{job} --server {serve}", ""),
    "jobs": ("--watch --server {serve}", "queued"),
    "top": ("--server {serve}", "queued"),
    "conductors": ("--watch", "no conductor"),
    "farm list": ("--watch", "no devices"),
    "package watch": (str(ROOT / "examples" / "packages" / "vmulc_s8"), "cycles"),
}
"""Options for each, and what it says once it is at work."""
_SAYS_SO = re.compile(r"until (Ctrl-C|told to leave|it ends)")
_LISTENS = re.compile(
    r"\.bind\(|create_server|start_server|(HTTP|TCP|UDP)Server\b|uvicorn\.(run|Server)|"
    r"distributed import .*(Scheduler|Worker|Nanny|LocalCluster)|\b(Listener|SyncManager)\("
)


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_the_table_has_all_that_run_until_they_are_stopped() -> None:
    lasting = {
        name
        for name, command in commands()
        if _SAYS_SO.search(" ".join(command.help.split()))
        or any("--watch" in one.opts for one in command.params)
    }
    assert lasting == set(UNTIL_STOPPED)


def test_nothing_else_opens_a_listening_socket() -> None:
    places = {
        str(place.relative_to(ROOT))
        for room in ("tuner", "service", "db", "dashboards")
        for place in (ROOT / room).rglob("*.py")
        if _LISTENS.search(place.read_text())
    }
    assert places == {
        "service/cli/documentation.py",
        "service/server/serving.py",
        "tuner/executor/cluster/processes.py",
    }


class Running:
    """Commands as processes, each with a state directory of its own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._processes: dict[str, psutil.Popen] = {}

    def start(self, name: str, arguments: str, more: Mapping[str, str] | None = None) -> None:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
        ours = {
            "HVXTUNE_STATE_DIR": str(self.folder / name),
            CACHE_DIR_VARIABLE: str(cache_dir()),
            "PYTHONPATH": str(ROOT),
        }
        process = psutil.Popen(
            [sys.executable, "-m", "service.cli", *name.split(), *arguments.split()],
            env={**kept, **ours, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._stack.enter_context(self.log(name).open("w")),
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(process.wait, PATIENCE_S)
        self._stack.callback(process.terminate)
        self._processes[name] = process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def until_says(self, name: str, words: str) -> str:
        """What follows ``words`` to the next space."""
        found: list[re.Match[str]] = []

        def said() -> bool:
            text = self.log(name).read_text()
            assert self._processes[name].poll() is None, f"{name} ended: {text}"
            found.extend(re.finditer(rf"{re.escape(words)} *(\S*)(.*)\n", text))
            return bool(found)

        try:
            until(said)
        except AssertionError:
            print(name, self.log(name).read_text())
            raise
        return found[0][1]

    def places(self, name: str) -> set[tuple[str, int]]:
        """Where it and all that it started can be reached: TCP that listens, UDP that is bound."""
        family = [self._processes[name], *self._processes[name].children(recursive=True)]
        return {
            (one.laddr.ip, one.laddr.port)
            for process in family
            for one in process.net_connections("inet")
            if one.status in (psutil.CONN_LISTEN, psutil.CONN_NONE)
        }


@contextmanager
def running(folder: Path) -> Iterator[Running]:
    with ExitStack() as stack:
        yield Running(folder, stack)


def other_address() -> str:
    """An address of this machine that is not loopback."""
    found = [
        one.address
        for of_interface in psutil.net_if_addrs().values()
        for one in of_interface
        if one.family == socket.AF_INET and not ip_address(one.address).is_loopback
    ]
    if not found:
        pytest.skip("this machine has loopback only")
    return found[0]


@pytest.mark.slow
def test_all_that_run_stay_on_loopback(tmp_path: Path) -> None:
    with running(tmp_path) as lab:
        known = {"scheduler": "", "serve": "", "job": ""}
        first = ("scheduler", "serve")
        for name in first:
            lab.start(name, UNTIL_STOPPED[name][0])
        for name in first:
            known[name] = lab.until_says(name, UNTIL_STOPPED[name][1]).removeprefix("dask://")
        token = (tmp_path / "serve" / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{known['serve']}/v1/jobs"
        made = httpx.post(url, json={"kernel": "add_u8"}, headers=headers, timeout=PATIENCE_S)
        [job] = made.raise_for_status().json()["jobs"]
        known["job"] = job["job"]
        for name, (arguments, _) in UNTIL_STOPPED.items():
            if name not in first:
                lab.start(name, arguments.format_map(known), {TOKEN_VARIABLE: token})
        for name, (_, words) in UNTIL_STOPPED.items():
            lab.until_says(name, words)
        found = {name: lab.places(name) for name in UNTIL_STOPPED}
        assert {name for name, places in found.items() if places} == LISTENERS
        others = other_address()
        for host, port in set().union(*found.values()):
            assert ip_address(host).is_loopback
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((others, port)).close()


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
def test_a_cluster_listens_on_the_way_to_its_scheduler(tls: bool, tmp_path: Path) -> None:
    asked = other_address()
    if tls:
        made = make_certificates([asked], tmp_path / "tls")
        option, more = "", {TLS_VARIABLE: str(made.folders[asked])}
    else:
        option, more = " --without-tls", {}
    with running(tmp_path) as lab:
        lab.start("scheduler", f"--port 0 --host {asked}{option}", more)
        place = lab.until_says("scheduler", "executor: dask://")
        lab.start("worker", f"--scheduler {place} --slots 1{option}", more)
        lab.start("conductor", f"--executor dask://{place}{option}", more)
        lab.until_says("worker", "1 slots at")
        lab.until_says("conductor", "fit to run")
        for name, hosts in {
            "scheduler": {asked, "127.0.0.1"},
            "worker": {asked, "127.0.0.1"},
            "conductor": set(),
        }.items():
            assert {host for host, _ in lab.places(name)} == hosts


@pytest.mark.parametrize(
    "command",
    [
        "scheduler --host 0.0.0.0",
        "scheduler --host ",
        "worker --scheduler 192.0.2.7:8786",
        "worker --scheduler 127.0.0.1:8786 --host ::",
        "conductor --executor dask://no.such.host.invalid:8786",
        "serve --executor dask://192.0.2.7:8786",
    ],
)
def test_none_goes_beyond_this_machine_without_certificates(hvxtune: Any, command: str) -> None:
    answer = hvxtune(*command.split(" "))
    assert answer.status == 2
    for words in ("beyond this machine", "hvxtune cluster certificates", "--without-tls"):
        assert words in answer.error_line


def test_a_cluster_without_its_package_is_told_at_once(
    hvxtune: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    for command in (("serve",), ("conductor",)):
        answer = hvxtune(*command, "--executor", "dask://127.0.0.1:8786")
        assert answer.status == 4
        assert "pip install 'hvxtune[dask]'" in answer.error_line
