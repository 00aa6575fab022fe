"""The marks of the conformance suites, made known to pytest wherever hvxtune is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """So that ``--strict-markers`` accepts them and ``-m "not slow"`` leaves them out."""
    config.addinivalue_line("markers", "slow: compiles or simulates, which takes seconds")
