"""A phone as a device of the farm."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tuner.codegen.toolchain import find_toolchain
from tuner.errors import CandidateError, DeviceError, InternalError, ToolchainError, UserError
from tuner.measure.android.adb import ShellOutput
from tuner.measure.android.background import Calls, background
from tuner.measure.android.call import Caller
from tuner.measure.android.link import PhoneLink
from tuner.measure.android.script import (
    PROPERTIES,
    hottest,
    parts_script,
    probe_script,
    said_until_nonce,
)
from tuner.measure.android.sdk_parts import SKEL, TOOL
from tuner.measure.cases import CASES_VERSION
from tuner.measure.dsp.bundle import Passenger, boarding, carry, seats
from tuner.measure.dsp.results import Power
from tuner.measure.dsp.shared_object import driver
from tuner.measure.dsp.turn import Called, Turn
from tuner.measure.farm.device import Batch, Device, DeviceReport, DiskRoom, Sampled, Task
from tuner.measure.farm.settings import Limits, PhoneSettings
from tuner.measure.harness import dsp_driver, dsp_harness
from tuner.problem.target import TARGETS, Target
from tuner.records.candidate import Fidelity

_PROBE_S = 3.0
_CLEAN_S = 20.0
_BUSY_S = 5.0
"""How long a check waits for a phone that another service works with; it comes again."""
_MOST_PROBLEMS, _PROBLEM_BYTES = 32, 1 << 26
"""Of one call: the driver keeps the memory image of each."""
_PATH = re.compile(r"/[A-Za-z0-9._/+-]{1,60}")
"""The tool takes its arguments apart at blanks, and the driver has room for so long a path."""


def open_phone(settings: PhoneSettings, name: str, limits: Limits) -> Phone:
    """The phone of a farm file's table. Nothing is connected yet."""
    return Phone(settings, name, limits)


class Phone(Device):
    """One phone over adb: candidates run on its DSP, by the SDK's ``run_main_on_hexagon``.

    A batch is one call of the tool, and another for what is left where a candidate dies in it.
    """

    kind: ClassVar[str] = "phone"
    fidelity: ClassVar[Fidelity] = "hardware"

    def __init__(self, settings: PhoneSettings, name: str, limits: Limits) -> None:
        for path in filter(None, (settings.tool, settings.skel, settings.folder)):
            if not _PATH.fullmatch(path) or ".." in path:
                raise UserError(
                    f"phone {name}: path '{path}'",
                    accepted="an absolute path of at most 60 letters, digits and ._/+-",
                )
        self._settings = settings
        self._name = name
        self._limits = limits
        self._calls = Calls()
        self._link = PhoneLink(
            settings.address or settings.serial, by_address=bool(settings.address)
        )
        self._caller: Caller | None = None
        self._power: Power | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def most_tasks(self) -> int:
        return self._limits.bundle

    def fingerprint(self) -> Mapping[str, str]:
        toolchain = find_toolchain()
        arch = self._settings.arch
        nonce = secrets.token_hex(8)
        properties = self._probed(nonce)[1]
        lines = said_until_nonce(self._shell(parts_script(self._settings, nonce), _CLEAN_S), nonce)
        sums = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
        for path, part in ((self._settings.tool, TOOL), (self._settings.skel, SKEL)):
            if path and path not in sums:
                raise ToolchainError(
                    f"phone {self._name} has no {path}",
                    next_step=f"push it from the Hexagon SDK, where it is {part}",
                )
        return {
            "soc": properties["ro.soc.model"] or properties["ro.board.platform"] or "unknown",
            "build": properties["ro.build.fingerprint"] or "unknown",
            "tool": sums[self._settings.tool][:16],
            "domain": str(self._settings.domain),
            "clocks": "highest asked for",
            "harness": dsp_harness(arch).digest(toolchain)[:16],
            "driver": dsp_driver(arch).digest(toolchain)[:16],
            "linker": toolchain.version,
            "cases": CASES_VERSION,
            "cache": "warm",
        }

    def require(self, target: Target) -> None:
        settings = self._settings
        if target.arch == settings.arch and target.soc in (None, settings.soc or None):
            return
        fitting = (
            t.name
            for t in TARGETS.values()
            if t.arch == settings.arch and t.soc in (None, settings.soc or None)
        )
        raise UserError(
            f"phone {self._name} ({settings.arch}{' ' * bool(settings.soc)}{settings.soc}) cannot "
            f"run code for {target.name}",
            accepted=", ".join(fitting),
            next_step="name another device with --on, or choose another --target",
        )

    def probe(self, nonce: str) -> DeviceReport:
        return self._probed(nonce)[0]

    def clean(self) -> DeviceReport:
        server = background().server
        self._calls.wait(self._its_caller().clean(server, _BUSY_S))
        return self.probe(secrets.token_hex(8))

    def noticed(self) -> Mapping[str, str]:
        return {} if self._power is None else {"clocks": self._power.told}

    def close(self) -> None:
        self._calls.close()

    def run(self, batch: Batch) -> list[Sampled | CandidateError | DeviceError]:
        passengers = [self._boarding(task) for task in batch.tasks]
        reference = self._reference(batch)
        carry(
            passengers,
            lambda pending: seats(self._fitting(pending, reference), reference),
            self._call,
            self._limits.task_s,
        )
        return [one.result(self._name, self.fidelity) for one in passengers]

    def _reference(self, batch: Batch) -> Turn | None:
        if batch.reference is None:
            return None
        boarded = self._boarding(batch.reference)
        if boarded.turn is None:
            raise InternalError(f"the reference candidate cannot be run: {boarded.error}")
        return boarded.turn

    def _boarding(self, task: Task) -> Passenger:
        self.require(task.problem.target)
        return boarding(task, self._settings.arch, task.repeats)

    def _fitting(self, pending: Sequence[Passenger], reference: Turn | None) -> list[Passenger]:
        """As many as leave no more on the phone's disk and in the DSP's memory than they may, but
        one at least."""
        reference_bytes = reference.image.kept_bytes if reference else 0
        room = self._settings.output_bytes - reference_bytes - pending[0].kept_bytes
        chosen = [pending[0]]
        for one in pending[1 : self.most_tasks]:
            room -= one.kept_bytes
            problems = {other.task.problem.digest: other for other in (*chosen, one)}.values()
            on_the_dsp = sum(other.kept_bytes for other in problems)
            if room < 0 or len(problems) > _MOST_PROBLEMS or on_the_dsp > _PROBLEM_BYTES:
                break
            chosen.append(one)
        return chosen

    def _call(self, turns: Sequence[Turn]) -> Called:
        caller = self._its_caller()
        server = background().server
        called = self._calls.wait(caller.call(server, turns, self._limits.task_s))
        self._power = called.results.power
        return called

    def _its_caller(self) -> Caller:
        if self._caller is None:
            self._caller = Caller(self._settings, self._link, driver(self._settings.arch))
        return self._caller

    def _shell(self, script: str, timeout_s: float) -> ShellOutput:
        return self._calls.wait(self._link.shell(background().server, script, timeout_s))

    def _probed(self, nonce: str) -> tuple[DeviceReport, dict[str, str]]:
        script = probe_script(self._settings, nonce)
        try:
            output = self._shell(script, _PROBE_S)
        except DeviceError:
            # adb may hold on to a connection that is dead; nothing of a candidate is under way.
            self._calls.wait(self._link.reconnect(background().server))
            output = self._shell(script, _PROBE_S)
        return _report(said_until_nonce(output, nonce), self._settings)


def _report(lines: Sequence[str], settings: PhoneSettings) -> tuple[DeviceReport, dict[str, str]]:
    if "@@" not in lines or len(lines) != lines.index("@@") + len(PROPERTIES) + 2:
        raise DeviceError("the phone's answer to a probe is not whole")
    middle = lines.index("@@")
    properties = dict(zip(PROPERTIES, (line.strip() for line in lines[middle + 1 :]), strict=False))
    details = {key.removeprefix("ro."): value for key, value in properties.items() if value}
    room = None
    if free := re.fullmatch(r"\S+\s+\d+\s+\d+\s+(\d+)\s+.*", lines[-1]):
        room = DiskRoom(settings.folder, int(free[1]) << 10, settings.disk_bytes)
        details["free space"] = f"{room.free_bytes >> 20} MiB"
    return DeviceReport(hottest(lines[:middle]), room, details), properties
