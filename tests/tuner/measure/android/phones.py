"""Emulated phones behind the product's own adb server, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tests.rig.phones import Phone as EmulatedPhone
from tests.rig.phones import require_rig, running_phones
from tuner.conformance.candidates import scale_artifact, scale_problem
from tuner.conformance.devices import HASTY_S
from tuner.errors import CandidateError, DeviceError
from tuner.measure.android.call import PhoneSettings
from tuner.measure.android.phone import Phone
from tuner.measure.device import Bundle, BundleEntry, Limits, Sampled

TASK_S = HASTY_S


@contextmanager
def adb_of_the_rig() -> Iterator[None]:
    """The product starts the rig's adb."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HVXTUNE_ADB", str(require_rig().adb))
        yield


@contextmanager
def phone_device(**settings: object) -> Iterator[tuple[Phone, EmulatedPhone]]:
    """A phone as the farm has it, and the switch of the emulated one behind it."""
    with adb_of_the_rig(), running_phones(1) as [emulated]:
        table = PhoneSettings(name="emu", arch="v66", address=emulated.address, **settings)  # type: ignore[arg-type]
        with Phone(table, "emu", Limits(task_s=TASK_S)) as device:
            yield device, emulated


def task(behaviour: str = "WELL", n: int = 500, **changed: int) -> BundleEntry:
    """The candidate of ``scale_u8.c`` that does ``behaviour`` on rows of ``n`` bytes."""
    problem = scale_problem(n=n)
    values = {"warm_ups": 1, "repeats": 3, **changed}
    return BundleEntry(problem, scale_artifact(problem, behaviour, ("-fPIC",)), **values)


def outcomes(results: Sequence[Sampled | CandidateError | DeviceError]) -> list[str]:
    """``ok``, the outcome of a candidate's fault, or ``device_error``."""
    return [
        "ok"
        if isinstance(result, Sampled)
        else str(result.outcome)
        if isinstance(result, CandidateError)
        else "device_error"
        for result in results
    ]


def run(device: Phone, *behaviours: str, reference: bool = True) -> list[str]:
    """The outcomes of a bundle of candidates."""
    bundle = Bundle([task(b) for b in behaviours], task() if reference else None)
    return outcomes(device.run(bundle))
