"""What tests of the vector compiler share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tuner.codegen.hvx.drawn import kept_open


@pytest.fixture(scope="session", autouse=True)
def workshop() -> Iterator[None]:
    with kept_open():
        yield
