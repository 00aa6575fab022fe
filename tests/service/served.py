"""``hvxtune serve`` as a process of its own, as people start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from service.client import Client
from tests.rig.scale_u8 import KERNELS
from tuner.conformance.patience import PATIENCE_S


@dataclass
class Served:
    """A running service and what it said at its start."""

    process: subprocess.Popen[str]
    about: Mapping[str, Any]
    log: Path
    token: str

    @property
    def url(self) -> str:
        return str(self.about["url"])

    def get(self, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.token}", **options.pop("headers", {})}
        return httpx.get(self.url + path, timeout=PATIENCE_S, headers=headers, **options)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal; the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def client(self) -> Client:
        """One that does not give a busy service up."""
        return Client(
            self.url, token=self.token, patience_s=PATIENCE_S, timeout=httpx.Timeout(PATIENCE_S)
        )


def environment(state: Path) -> dict[str, str]:
    """For processes that use the state directory ``state``, with a farm file in it if there is
    one, and know the test kernels."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HVXTUNE_")}
    ours = {
        "HVXTUNE_STATE_DIR": str(state),
        "HVXTUNE_KERNELS": KERNELS,
        "HVXTUNE_FARM_FILE": str(state / "farm.toml"),
    }
    return {**kept, **ours}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "service.cli", "serve", *arguments]


@contextmanager
def served(state: Path, *arguments: str) -> Iterator[Served]:
    """A service on a free port of loopback; killed at the end if it still runs."""
    state.mkdir(parents=True, exist_ok=True)
    log = state / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            command("--port", "0", "--json", *arguments),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(state),
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, log.read_text()
        yield Served(process, json.loads(line), log, (state / "token").read_text().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
