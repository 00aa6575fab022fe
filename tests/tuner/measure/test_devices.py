"""Every kind of device, held to the contract of devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest

from tests.rig.phones import Phone as EmulatedPhone
from tests.rig.phones import running_phones
from tests.tuner.measure.android.phones import adb_of_the_rig
from tuner.conformance.devices import DeviceConformance
from tuner.conformance.patience import until
from tuner.measure.android.call import PhoneSettings
from tuner.measure.android.phone import Phone
from tuner.measure.device import Device, Limits
from tuner.measure.qemu.device import SimulatorSettings, SimulatorSlot

pytestmark = pytest.mark.slow


class TestSimulatorSlot(DeviceConformance):
    has_clock = False

    def make(self, task_s: float) -> Device:
        return SimulatorSlot(SimulatorSettings(name="sim"), "sim-1", Limits(task_s=task_s))


class TestPhone(DeviceConformance):
    """Over the real adb and adbd; the phone's DSP is emulated."""

    emulated: ClassVar[EmulatedPhone]
    _folder = "/data/local/tmp/conformance"

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def rig(cls, private_state: None) -> Iterator[None]:
        with adb_of_the_rig(), running_phones(1) as [cls.emulated]:
            yield

    def make(self, task_s: float) -> Device:
        settings = PhoneSettings(
            name="p", arch="v66", address=self.emulated.address, folder=self._folder
        )
        return Phone(settings, "phone-1", Limits(task_s=task_s, bundle=4))

    def leftovers(self) -> Sequence[str]:
        """The folder itself may stay; busybox's time-out lives on for up to a second."""
        until(lambda: "timeout" not in " ".join(self.emulated.processes()))
        files = [path for path in self.emulated.files() if path != self._folder]
        return [*self.emulated.processes(), *files]
