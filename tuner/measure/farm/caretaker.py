"""Looks after a farm while no job does: checks devices that are due, and asks after lost ones."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from tuner.errors import HvxtuneError
from tuner.measure.farm import health
from tuner.measure.farm.farm_file import Farm
from tuner.measure.farm.kinds import Member
from tuner.measure.farm.measurer import GoldFor, OpenDevice, check_device, enrol, gold_for
from tuner.measure.farm.roster import Roster
from tuner.measure.farm.states import DeviceRecord, DeviceState

LOOK_S = 2.0
_MOST_AT_ONCE = 8
_log = logging.getLogger("hvxtune.farm")


@dataclass(frozen=True)
class CheckResult:
    """What came of asking for a check: ``checked`` is false for a device that was not to be had,
    and ``failure`` says what is wrong, if anything."""

    record: DeviceRecord
    checked: bool
    failure: str = ""


class Caretaker:
    """The farm of this machine, kept in order. ``holder`` is what others read of who checks.

    Several caretakers may look after one roster: leases keep them apart.
    """

    def __init__(
        self,
        farm: Farm,
        roster: Roster,
        holder: str,
        *,
        open_device: OpenDevice = Member.open,
        make_gold: GoldFor = gold_for,
    ) -> None:
        self._farm = farm
        self._roster = roster
        self._holder = holder
        self._open_device = open_device
        self._make_gold = make_gold

    def run(self, leave: threading.Event) -> None:
        """Checks whatever is due until ``leave`` is set. Errors are logged and waited out."""
        enrolled = False
        while not leave.is_set():
            try:
                if not enrolled:
                    enrol(self._farm, self._roster)
                    enrolled = True
                for result in self.check(self._due()):
                    if result.failure:
                        _log.warning("device %s: %s", result.record.name, result.failure)
            except HvxtuneError as error:
                _log.error("%s", error)
            leave.wait(LOOK_S)

    def _due(self) -> list[Member]:
        records = {record.name: record for record in self._roster.devices()}
        now = self._roster.clock()
        return [
            member
            for member in self._farm.members
            if health.is_due(records[member.name], self._farm.limits, now, tuple(records.values()))
        ]

    def check(self, members: Iterable[Member]) -> Iterator[CheckResult]:
        """Checks devices of the farm now, several at once; each as it is done."""
        wanted = list(members)
        if not wanted:
            return
        with ThreadPoolExecutor(min(len(wanted), _MOST_AT_ONCE), "farm-check") as pool:
            for done in as_completed([pool.submit(self._check, member) for member in wanted]):
                yield done.result()

    def _check(self, member: Member) -> CheckResult:
        try:
            record = check_device(
                self._roster,
                member,
                self._farm.limits,
                self._holder,
                self._open_device,
                self._make_gold,
            )
        except HvxtuneError as error:
            return CheckResult(self._roster.device(member.name), True, str(error))
        if record is None:
            return CheckResult(self._roster.device(member.name), False)
        failure = "" if record.state is DeviceState.READY else record.reason
        return CheckResult(record, True, failure)
