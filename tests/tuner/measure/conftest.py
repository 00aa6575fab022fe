"""Measurer tests build their candidates in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rig.scale_u8 import KERNELS
from tuner.kernels import EXTRA_KERNELS_VARIABLE
from tuner.paths import STATE_DIR_VARIABLE


@pytest.fixture(scope="package", autouse=True)
def private_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A fresh state directory, and the test kernels."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE_DIR_VARIABLE, str(tmp_path_factory.mktemp("state")))
        patch.setenv(EXTRA_KERNELS_VARIABLE, KERNELS)
        yield
