"""Measurer tests build their candidates in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.measure.qemu.simulator import QEMU_VARIABLE, find_simulator
from tuner.paths import STATE_DIR_VARIABLE, writable


@pytest.fixture(scope="package", autouse=True)
def private_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A fresh state directory, with the simulator and the programs of the rig that the user's has
    and the test kernels."""
    program = find_simulator().command[-1]
    rig = writable("rig")
    with pytest.MonkeyPatch.context() as patch:
        state = tmp_path_factory.mktemp("state")
        (state / "rig").symlink_to(rig)
        patch.setenv(STATE_DIR_VARIABLE, str(state))
        patch.setenv(QEMU_VARIABLE, program)
        patch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        yield
