"""Why a sound pipeline cannot be tuned."""

from __future__ import annotations


class NotTunableError(Exception):
    """The pipeline is not of the kind that can be tuned; the text says why."""
