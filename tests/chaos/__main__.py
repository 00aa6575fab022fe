"""``python -m tests.chaos --seeds 20``: a run for each seed, a line for each run."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from tests.chaos.cluster import USERS, Cluster
from tests.chaos.faults import Fault, plan
from tests.chaos.lab import ALONE, Lab, missing
from tests.chaos.verdict import TRIGGERS, Verdict, judge, log_of, longest_gap_s
from tuner.paths import cache_dir

LEASE_S = 12.0
CONDUCTORS = 2
WORKERS = 2
JOBS = 6
TRIALS = 40
FAULTS = 8
WITHIN_S = 50.0
SETTLE_S = 8.0
"""From the end of a fault until a process that was started again works."""
END_LIMIT_S = 180.0
_LOOK_S = 0.5


class Run:
    """One seed: a cluster, its jobs, its faults, and what came of them."""

    def __init__(self, seed: int, cluster: Cluster) -> None:
        self._seed = seed
        self._cluster = cluster
        self._jobs: dict[str, str] = {}
        self._seen: set[tuple[str, int, str | None]] = set()
        self._leave = threading.Event()

    def run(self) -> Verdict:
        """The verdict, once all jobs have ended or time is up."""
        with self._cluster.connect() as connection:
            connection.execute(TRIGGERS)
        for number in range(JOBS):
            self._submit(number, USERS[number % len(USERS)])
        begun_at = time.time()
        hosts = list(self._cluster.roles)
        faults = plan(self._seed, hosts, count=FAULTS, within_s=WITHIN_S, lease_s=LEASE_S)
        looker = threading.Thread(target=self._look)
        looker.start()
        happened = self._break(faults, begun_at)
        ended = self._wait()
        self._leave.set()
        looker.join()
        return self._judge(happened, begun_at, ended)

    def _submit(self, number: int, user: str) -> None:
        body = {
            "kernel": "add_u8",
            "params": {"width": 256 + 128 * number, "height": 16},
            "contract": "static",
            "seed": number,
            "budget": {"trials": TRIALS},
        }
        job = self._cluster.submit(user, body, f"chaos-{self._seed}-{number}", END_LIMIT_S)
        self._jobs[job] = user

    def _break(self, faults: list[Fault], begun_at: float) -> list[Fault]:
        """Lets the faults happen; those that did, with their true times."""
        steps = sorted(
            [(one.at_s, 1, one) for one in faults] + [(one.until_s, 0, one) for one in faults],
            key=lambda step: step[:2],
        )
        began: dict[Fault, float] = {}
        happened = []
        for due_s, starts, fault in steps:
            time.sleep(max(0.0, begun_at + due_s - time.time()))
            now_s = time.time() - begun_at
            if starts:
                began[fault] = now_s
                self._cluster.begin(fault.kind, fault.host, fault.amount)
            else:
                self._cluster.end(fault.kind, fault.host)
                at_s = began[fault]
                happened.append(
                    Fault(at_s, fault.kind, fault.host, time.time() - begun_at - at_s, fault.amount)
                )
        return happened

    def _look(self) -> None:
        """Notes all trials that the service tells of: what was told must stay."""
        while not self._leave.wait(_LOOK_S):
            for job, user in self._jobs.items():
                page = self._cluster.ask("GET", f"/v1/jobs/{job}/trials?limit=100", user)
                for trial in (page or {}).get("items", []):
                    self._seen.add((job, trial["trial"], trial["object_digest"]))

    def _wait(self) -> bool:
        deadline = time.monotonic() + END_LIMIT_S
        while time.monotonic() < deadline:
            states = [
                (self._cluster.ask("GET", f"/v1/jobs/{job}", user) or {}).get("state")
                for job, user in self._jobs.items()
            ]
            if all(state in ("done", "failed", "cancelled") for state in states):
                return True
            time.sleep(_LOOK_S)
        return False

    def _judge(self, faults: list[Fault], begun_at: float, ended: bool) -> Verdict:
        with self._cluster.connect() as connection:
            events = log_of(connection)
            final = {job: self._trials(connection, job) for job in self._jobs}
            states = dict(connection.execute("SELECT id, state FROM jobs").fetchall())
            notes = dict(connection.execute("SELECT id, note FROM jobs").fetchall())
        addresses = {name: role.host.address for name, role in self._cluster.roles.items()}
        found = judge(events, dict.fromkeys(self._jobs, TRIALS), final, self._seen, addresses)
        if not ended:
            found.wrong.append(f"jobs had not ended {END_LIMIT_S:.0f} s after the last fault")
        found.wrong += [
            f"job {job} is {state} ({notes[job]})"
            for job, state in states.items()
            if state != "done"
        ]
        conductors = {name for name in addresses if name.startswith("conductor")}
        found.longest_gap_s, which = longest_gap_s(events, faults, begun_at, conductors, SETTLE_S)
        if found.longest_gap_s > 2 * LEASE_S:
            found.late.append(f"stood still for {found.longest_gap_s:.1f} s: {which}")
        if lost := self._cluster.lost_objects():
            found.wrong.append(f"objects are lost or damaged: {lost}")
        return found

    def _trials(
        self, connection: psycopg.Connection[Any], job: str
    ) -> list[tuple[int, str | None]]:
        return connection.execute(
            "SELECT number, artifact_digest FROM trials WHERE job_id = %s AND outcome IS NOT NULL"
            " ORDER BY number",
            (job,),
        ).fetchall()


def run_here(seed: int, keep: Path | None) -> Verdict:
    """A run in the namespaces of this process, which must be its own."""
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)  # the database has another user
        lab = Lab(folder, cache_dir())
        with Cluster(lab, conductors=CONDUCTORS, workers=WORKERS, lease_s=LEASE_S) as cluster:
            found = None
            try:
                found = Run(seed, cluster).run()
            finally:
                if keep is not None and (found is None or found.wrong or found.late):
                    keep.write_text(cluster.logs(200_000))
        return found


def say(*lines: str) -> None:
    """Prints lines at once: a run takes minutes."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main() -> int:
    """Runs the seeds that the command line names; 1 if a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many, from 1 on")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help="where to keep the logs of a bad run")
    asked = parser.parse_args()
    if asked.inside:
        say(json.dumps(asdict(run_here(asked.seed, asked.log))))
        return 0
    if reason := missing():
        sys.stderr.write(f"chaos cannot be had on this machine: {reason}\n")
        return 2
    seeds = [asked.seed] if asked.seed is not None else range(1, asked.seeds + 1)
    bad = 0
    say(" seed  jobs trials claims  lost doubled stale  gap s")
    for seed in seeds:
        try:
            found = run_alone(seed, asked.log)
        except subprocess.CalledProcessError as error:
            say(f"{seed:5} ended without a verdict (exit status {error.returncode})")
            bad += 1
            continue
        say(
            f"{seed:5} {found.jobs:5} {found.trials:6} {found.claims:6} {found.lost:5}"
            f" {found.doubled:7} {found.stale:5} {found.longest_gap_s:6.1f}",
            *(f"      {line}" for line in found.wrong + found.late),
        )
        bad += bool(found.wrong + found.late)
    return 1 if bad else 0


def run_alone(seed: int, log: Path | None = None) -> Verdict:
    """A run in namespaces of its own, of which nothing is left afterwards."""
    command = [*ALONE, sys.executable, "-m", "tests.chaos", "--inside", "--seed", str(seed)]
    if log is not None:
        command += ["--log", str(log)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Verdict(**json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
