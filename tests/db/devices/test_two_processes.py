"""Two processes share one roster: whatever they do at once, a device has one holder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from db import open_store
from db.devices.roster import SqlRoster
from tuner.conformance.patience import PATIENCE_S
from tuner.measure.farm.roster import Checked, DeviceState, Enrolment, Purpose

ROOT = Path(__file__).parents[3]
LEASES = 40
WORKER = f"""
import sys, time
from db import open_store
from tuner.measure.farm.roster import DeviceState, Tally

with open_store() as store:
    roster, got = store.roster(), 0
    while got < {LEASES}:
        lease = roster.lease("pixel", sys.argv[1])
        if lease is None:
            time.sleep(0.001)
            continue
        with open(sys.argv[2], "a") as log:
            log.write(f"+{{sys.argv[1]}}\\n")
            log.flush()
            log.write(f"-{{sys.argv[1]}}\\n")
        roster.give_back(lease, DeviceState.READY, "worked", tally=Tally(trials=1))
        got += 1
"""


@pytest.mark.slow
def test_a_device_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    with open_store() as store:
        roster = SqlRoster(store)
        roster.enrol(Enrolment("pixel", "phone", "hardware"))
        lease = roster.lease("pixel", "test", Purpose.CHECK)
        assert lease is not None
        roster.give_back(lease, DeviceState.READY, "checked", checked=Checked())
        log = tmp_path / "log"
        workers = [
            subprocess.Popen([sys.executable, "-c", WORKER, name, str(log)], cwd=ROOT)
            for name in ("ann", "bob")
        ]
        assert [worker.wait(PATIENCE_S) for worker in workers] == [0, 0]
        lines = log.read_text().split()
        assert len(lines) == 4 * LEASES
        for begun, ended in zip(lines[::2], lines[1::2], strict=True):
            assert (begun[0], ended[0], begun[1:]) == ("+", "-", ended[1:]), "two at once"
        record = roster.device("pixel")
        assert (record.trials, record.state) == (2 * LEASES, DeviceState.READY)
        assert record.token == 2 * LEASES + 1
