"""What commands listen on: the kernel's list of sockets, for each that runs until it is stopped."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.client import Client
from service.client.connection import TOKEN_VARIABLE
from tests.test_docs import COMMANDS
from tuner.conformance.patience import PATIENCE_S, until
from tuner.executor.cluster.authority import make_certificates
from tuner.executor.cluster.encryption import TLS_VARIABLE
from tuner.machine.addresses import is_loopback
from tuner.paths import CACHE_DIR_VARIABLE, cache_dir

ROOT = Path(__file__).parents[3]
UNTIL_STOPPED: dict[str, tuple[str, str]] = {
    "cluster scheduler": ("--port 0", "executor: dask://"),
    "serve": ("--port 0 --conductors 0", "listens on"),
    "cluster worker": ("--scheduler {place} --slots 1", "1 slots at"),
    "cluster conductor": ("--executor dask://{place}", "fit to run"),
    "cluster list": ("--watch", "no conductor"),
    "job watch": ("{job} --server {url}", "0/"),
    "jobs": ("--watch --server {url}", "queued"),
    "farm list": ("--watch", "no device"),
    "package watch": (str(ROOT / "examples" / "packages" / "vmulc_s8"), "cycles"),
    "tool docs": ("--port {free}", "http"),
}
"""Options for each, and what it says once it is at work."""
OF_ONE_PAGE = """
import pathlib, sys
from service.cli import main, site
site.CONFIG = pathlib.Path(sys.argv.pop(1))
main()
"""
LISTENERS = {"serve", "tool docs", "cluster scheduler", "cluster worker"}
_SAYS_SO = re.compile(r"until (Ctrl-C|told to leave|it ends)")
_LISTENS = re.compile(
    r"\.bind\(|create_server|start_server|(HTTP|TCP|UDP)Server\b|uvicorn\.(run|Server)|"
    r"\b(Listener|SyncManager)\(|\bmkdocs\b.*\bserve\b|"
    r"distributed import .*(Scheduler|Worker|Nanny|LocalCluster)"
)


def test_the_table_has_all_that_run_until_they_are_stopped() -> None:
    lasting = {
        name
        for name, command in COMMANDS.items()
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
        self.started: dict[str, psutil.Popen] = {}
        self._stack = stack

    def start(self, name: str, options: str, more: Mapping[str, str] | None = None) -> None:
        program = ["-m", "service.cli"]
        if name == "tool docs":  # of one page: the whole site takes half a minute
            (self.folder / "docs").mkdir()
            (self.folder / "mkdocs.yml").write_text("site_name: one page\n")
            program = ["-c", OF_ONE_PAGE, str(self.folder / "mkdocs.yml")]
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
        ours = {
            "HVXTUNE_STATE_DIR": str(self.folder / name),
            CACHE_DIR_VARIABLE: str(cache_dir()),
            "PYTHONPATH": str(ROOT),
        }
        self.started[name] = process = psutil.Popen(
            [sys.executable, *program, *name.split(), *options.split()],
            env={**kept, **ours, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._stack.enter_context(self._log(name).open("w")),
            stderr=subprocess.STDOUT,
        )
        self._stack.callback(process.wait, PATIENCE_S)
        self._stack.callback(process.kill)

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def until_says(self, name: str, words: str) -> str:
        """What follows ``words``, to the next space."""
        found: list[str] = []

        def said() -> bool:
            text = self._log(name).read_text()
            assert self.started[name].poll() is None, f"{name} ended: {text}"
            found.extend(re.findall(rf"{re.escape(words)} *(\S*).*\n", text))
            return bool(found)

        until(said)
        return found[0]

    def places(self, name: str) -> set[tuple[str, int]]:
        """Where it and all that it started can be reached: TCP that listens, UDP that is bound."""
        found = []
        for process in (self.started[name], *self.started[name].children(recursive=True)):
            with suppress(psutil.NoSuchProcess):  # such as a compiler
                found += process.net_connections("inet")
        reached = (psutil.CONN_LISTEN, psutil.CONN_NONE)
        return {(one.laddr.ip, one.laddr.port) for one in found if one.status in reached}


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


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
        if one.family == socket.AF_INET and not is_loopback(one.address)
    ]
    if not found:
        pytest.skip("this machine has loopback only")
    return found[0]


@pytest.mark.slow
def test_all_that_run_stay_on_loopback(tmp_path: Path) -> None:
    with running(tmp_path) as lab:
        for name in ("cluster scheduler", "serve"):
            lab.start(name, UNTIL_STOPPED[name][0])
        place, url = (lab.until_says(name, UNTIL_STOPPED[name][1]) for name in tuple(lab.started))
        token = (tmp_path / "serve" / "token").read_text().strip()
        with Client(url, token=token, patience_s=PATIENCE_S) as client:
            [job] = client.submit("add_u8")
        for name, (options, _) in UNTIL_STOPPED.items():
            if name not in lab.started:
                known = {"place": place, "url": url, "job": job["job"], "free": unused_port()}
                lab.start(name, options.format_map(known), {TOKEN_VARIABLE: token})
        for name, (_, words) in UNTIL_STOPPED.items():
            lab.until_says(name, words)
        until(lambda: all(lab.places(name) for name in LISTENERS))
        found = {name: lab.places(name) for name in UNTIL_STOPPED}
    assert {name for name, places in found.items() if places} == LISTENERS
    assert [host for host, _ in set().union(*found.values()) if not is_loopback(host)] == []


@pytest.mark.slow
@pytest.mark.parametrize("tls", [True, False])
def test_a_cluster_listens_on_the_way_to_its_scheduler(tls: bool, tmp_path: Path) -> None:
    asked = other_address()
    option, more = " --without-tls", {}
    if tls:
        made = make_certificates([asked], tmp_path / "tls")
        option, more = "", {TLS_VARIABLE: str(made.folders[asked])}
    with running(tmp_path) as lab:
        lab.start("cluster scheduler", f"--port 0 --host {asked}{option}", more)
        place = lab.until_says("cluster scheduler", "executor: dask://")
        lab.start("cluster worker", f"--scheduler {place} --slots 1{option}", more)
        lab.until_says("cluster worker", "1 slots at")
        lab.start("cluster conductor", f"--executor dask://{place}{option}", more)
        lab.until_says("cluster conductor", "fit to run")
        found = {name: {host for host, _ in lab.places(name)} for name in lab.started}
    both = {asked, "127.0.0.1"}  # Dask insists on an HTTP server, which has no routes
    assert list(found.values()) == [both, both, set()]


@pytest.mark.parametrize(
    "command",
    [
        "cluster scheduler --host 0.0.0.0",
        "cluster scheduler --host ",
        "cluster worker --scheduler 192.0.2.7:8786",
        "cluster worker --scheduler 127.0.0.1:8786 --host ::",
        "cluster conductor --executor dask://no.such.host.invalid:8786",
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
    for command in (("serve",), ("cluster", "conductor")):
        answer = hvxtune(*command, "--executor", "dask://127.0.0.1:8786")
        assert answer.status == 4
        assert "pip install 'hvxtune[dask]'" in answer.error_line
