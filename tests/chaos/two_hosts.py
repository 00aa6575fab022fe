"""A service on one host, the worker of its cluster on another: ``python -m tests.chaos.two_hosts``.

Neither host sees a file of the other's. The service keeps its database and its artifacts on its own
disk and has no simulator; all objects come over the network. Prints as JSON what someone on neither
of them finds.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.chaos.cluster import HVXTUNE
from tests.chaos.lab import ALONE, Host, Lab
from tuner.conformance.patience import until
from tuner.paths import cache_dir

TRIALS = 8


def _sees(host: Host, other: Host) -> list[str]:
    """The files of ``other`` that there are on ``host``."""
    found = host.run(["find", str(other.folder), "-mindepth", "1"])
    return found.splitlines()


def run_here() -> dict[str, Any]:
    """What is found, in the namespaces of this process, which must be its own."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        lab = Lab(Path(name), cache_dir())
        service, worker = lab.add("service"), lab.add("worker")
        worker.start([*HVXTUNE, "cluster", "scheduler", "--host", worker.address])
        worker.start(
            [*HVXTUNE, "cluster", "worker", "--scheduler", f"{worker.address}:8786", "--slots", "2"]
        )
        settings = {
            "HVXTUNE_EXECUTOR": f"dask://{worker.address}:8786",
            "HVXTUNE_QEMU": "/bin/false",
        }
        make = [*HVXTUNE, "token", "create", "--scope", "submit", "--scope", "read", "--json"]
        token = json.loads(service.run([*make, "--name", "ann"], settings))["token"]
        service.start([*HVXTUNE, "serve", "--host", service.address, "--port", "8100"], settings)
        try:
            return {
                "shared": [*_sees(service, worker), *_sees(worker, service)],
                **_tuned(f"http://{service.address}:8100/v1", token),
            }
        except BaseException:
            sys.stderr.write(service.log.read_text() + worker.log.read_text())
            raise
        finally:
            for host in lab.hosts.values():
                host.kill()


def _tuned(address: str, token: str) -> dict[str, Any]:
    retries = httpx.HTTPTransport(retries=8)  # while the service starts
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=address, transport=retries, headers=headers, timeout=60.0) as client:
        problem = {"kernel": "add_u8", "params": {"width": 256, "height": 16}}
        asked = {**problem, "contract": "static", "budget": {"trials": TRIALS}}
        [job] = client.post("/jobs", json=asked).raise_for_status().json()["jobs"]
        place = f"/jobs/{job['job']}"
        until(lambda: client.get(place).json()["state"] in ("done", "failed", "cancelled"))
        trials = client.get(f"{place}/trials").json()["items"]
        schedules = client.get("/schedules", params={"kernel": "add_u8"}).json()["items"]
        return {
            "job": client.get(place).json(),
            "trials": trials,
            "schedules": [
                {
                    "stored": one["object_digest"],
                    "served": hashlib.sha256(
                        client.get(f"/schedules/{one['id']}/object").raise_for_status().content
                    ).hexdigest(),
                }
                for one in schedules
            ],
        }


def run_alone() -> dict[str, Any]:
    """What :func:`run_here` finds, in namespaces of which nothing is left afterwards."""
    command = [*ALONE, sys.executable, "-m", "tests.chaos.two_hosts"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run_here()))
