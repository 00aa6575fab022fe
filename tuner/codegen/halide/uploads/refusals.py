"""How a contained process says no: its exit status, and why a sound pipeline cannot be tuned."""

from __future__ import annotations

EXIT_REFUSED = 3
"""Its exit status where Halide refuses the bytes; the answer then holds the reason."""
EXIT_NOT_TUNABLE = 4
"""The same where the bytes are a pipeline, but not one that can be tuned."""


class NotTunableError(Exception):
    """The pipeline is not of the kind that can be tuned; the text says why."""
