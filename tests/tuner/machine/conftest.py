"""The machine's tests look for programs in a state directory of their own."""

from tests.tuner.measure.conftest import private_state

__all__ = ["private_state"]
