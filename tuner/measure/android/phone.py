"""A phone over adb as a kind of device, and what it needs of this machine."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from typing import ClassVar

from tuner.errors import DeviceError, HvxtuneError, ToolchainError, UserError
from tuner.measure.android.adb import ShellOutput, find_adb
from tuner.measure.android.call import (
    PROPERTIES,
    Caller,
    PhoneSettings,
    hottest,
    parts_script,
    probe_script,
    said_until_nonce,
)
from tuner.measure.android.link import Calls, PhoneLink, background
from tuner.measure.device import DeviceReport, DeviceSettings, DiskRoom, Limits
from tuner.measure.dsp.bundle import PackedEntry
from tuner.measure.dsp.device import DspDevice
from tuner.measure.dsp.queue import CallResult, Power, QueuedRun
from tuner.measure.dsp.sdk import SDK_VARIABLES, SKEL, TOOL, sdk_root
from tuner.measure.dsp.shared_object import driver
from tuner.measure.finding import Finding
from tuner.records.candidate import Fidelity

_PROBE_S = 3.0
_CLEAN_S = 20.0
_BUSY_S = 5.0
"""How long a check waits for a phone that another service works with; it comes again."""
_MOST_PROBLEMS, _PROBLEM_BYTES = 32, 1 << 26
"""Of one call: the driver keeps the memory image of each."""
_PATH = re.compile(r"/[A-Za-z0-9._/+-]{1,60}")
"""The tool takes its arguments apart at blanks, and the driver has room for paths this long."""


class Phone(DspDevice):
    """One phone over adb: candidates run on its DSP, by the SDK's ``run_main_on_hexagon``.

    A bundle is one call of the tool, and another for the rest where a candidate dies in it.
    """

    kind: ClassVar[str] = "phone"
    fidelity: ClassVar[Fidelity] = "hardware"
    Settings: ClassVar[type[DeviceSettings]] = PhoneSettings

    def __init__(self, settings: PhoneSettings, name: str, limits: Limits) -> None:
        super().__init__(settings, name, limits)
        for path in filter(None, (settings.tool, settings.skel, settings.folder)):
            if not _PATH.fullmatch(path) or ".." in path:
                raise UserError(
                    f"phone {name}: path '{path}'",
                    accepted="an absolute path of at most 60 letters, digits and ._/+-",
                )
        self.soc = settings.soc
        self._settings = settings
        self._calls = Calls()
        self._link = PhoneLink(
            settings.address or settings.serial, by_address=bool(settings.address)
        )
        self._made_caller: Caller | None = None
        self._power: Power | None = None

    @classmethod
    def doctor(cls) -> Sequence[Finding]:
        return (_adb(), _sdk_parts())

    def fingerprint(self) -> Mapping[str, str]:
        nonce = secrets.token_hex(8)
        properties = self._probed(nonce)[1]
        lines = said_until_nonce(self._shell(parts_script(self._settings, nonce), _CLEAN_S), nonce)
        sums = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
        for path, part in ((self._settings.tool, TOOL), (self._settings.skel, SKEL)):
            if path and path not in sums:
                raise ToolchainError(
                    f"phone {self.name} has no {path}",
                    next_step=f"push it from the Hexagon SDK, where it is {part}",
                )
        return {
            "soc": properties["ro.soc.model"] or properties["ro.board.platform"] or "unknown",
            "build": properties["ro.build.fingerprint"] or "unknown",
            "tool": sums[self._settings.tool][:16],
            "domain": str(self._settings.domain),
            "clocks": "highest asked for",
            **self.harness_fingerprint(),
        }

    def probe(self, nonce: str) -> DeviceReport:
        return self._probed(nonce)[0]

    def clean(self) -> DeviceReport:
        self._calls.wait(self._caller.clean(background().server, _BUSY_S))
        return self.probe(secrets.token_hex(8))

    def noticed(self) -> Mapping[str, str]:
        return {} if self._power is None else {"clocks": self._power.told}

    def close(self) -> None:
        self._calls.close()

    def call(self, runs: Sequence[QueuedRun]) -> CallResult:
        call = self._caller.call(background().server, runs, self._limits.task_s)
        called = self._calls.wait(call)
        self._power = called.results.power
        return called

    def fitting(
        self, pending: Sequence[PackedEntry], reference: QueuedRun | None
    ) -> list[PackedEntry]:
        """As many as leave no more on the phone's disk and in the DSP's memory than they may, but
        one at least."""
        reference_bytes = reference.image.case_bytes if reference else 0
        room = self._settings.output_bytes - reference_bytes - pending[0].kept_bytes
        chosen = [pending[0]]
        for one in pending[1 : self.max_entries]:
            room -= one.kept_bytes
            images = {other.image_key: other for other in (*chosen, one)}.values()
            on_the_dsp = sum(other.kept_bytes for other in images)
            if room < 0 or len(images) > _MOST_PROBLEMS or on_the_dsp > _PROBLEM_BYTES:
                break
            chosen.append(one)
        return chosen

    @property
    def _caller(self) -> Caller:
        if self._made_caller is None:
            self._made_caller = Caller(self._settings, self._link, driver(self._arch))
        return self._made_caller

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


def _adb() -> Finding:
    remedy = "install adb: on Debian and Ubuntu the package adb, else Android's SDK Platform Tools"
    try:
        present, found = True, str(find_adb())
    except HvxtuneError as error:
        present, found = False, error.message
    return Finding("adb", present, found, "measuring on phones", remedy, required=False)


def _sdk_parts() -> Finding:
    """The SDK's files for phones, which may have them already: then they need not be here."""
    variable, root = SDK_VARIABLES[1], sdk_root()
    missing: list[str] = []
    if root is None:
        found = f"{variable} is not set"
    else:
        skels = list(root.glob(SKEL))
        missing = [TOOL] * (not (root / TOOL).exists()) + [SKEL] * (not skels)
        found = (
            f"{root} has no {' and no '.join(missing)}"
            if missing
            else f"{root / TOOL}, {len(skels)} skeleton libraries beside it"
        )
    return Finding(
        "run_main_on_hexagon",
        root is not None and not missing,
        found,
        "measuring on phones: pushed to a phone once, not needed here after that",
        f"install the Hexagon SDK and set {variable} to it; in it lie {TOOL} and {SKEL}",
        required=False,
    )
