"""The devices of a worker's farm: one roster for all that drives them in its process.

The roster of a service is elsewhere, and a worker has no database. Leases in this one keep the
measurers of several jobs, and the checks between, from driving a device at the same time.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from tuner.errors import HvxtuneError
from tuner.machine.fitness import Lack
from tuner.measure import FARM
from tuner.measure.device import Member
from tuner.measure.farm.farm_file import NoFarmError, read_farm
from tuner.measure.farm.health import Caretaker, enrol
from tuner.measure.farm.roster import DeviceRecord, DeviceState, MemoryRoster

ROSTER = MemoryRoster()
"""Of this process."""


@dataclass(frozen=True)
class Devices:
    """Those in service, and why the others are not."""

    members: Sequence[Member] = ()
    lacks: tuple[Lack, ...] = ()


def devices() -> Devices:
    """The devices of the farm file, after a check of those that are due for one: it may take
    seconds. None without such a file."""
    try:
        farm = read_farm()
        enrol(farm, ROSTER)
        caretaker = Caretaker(farm, ROSTER, f"worker {os.getpid()} on {socket.gethostname()}")
        list(caretaker.check_due())
    except NoFarmError:
        return Devices()
    except HvxtuneError as error:
        return Devices(lacks=(Lack(FARM, str(error)),))
    records = {record.name: record for record in ROSTER.devices()}
    found = [(member, records[member.name]) for member in farm.members]
    return Devices(
        [member for member, record in found if _serves(record)],
        tuple(
            Lack(FARM, f"{record.name} is {record.state} ({record.reason})")
            for _, record in found
            if not _serves(record)
        ),
    )


def _serves(record: DeviceRecord) -> bool:
    return record.state in (DeviceState.READY, DeviceState.LEASED)
