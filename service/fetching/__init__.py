"""Fetching for builds: object and headers of a schedule, pinned by digest in a lock file.

``sources`` tells where schedules come from (a service, the database of this machine, a file),
``pins`` is the lock file, ``checked_header`` writes the header that holds callers to their
contract, and ``fetch`` joins them; ``network`` does so for all functions of a network. ``hvxtune
fetch`` is the command.
"""

from __future__ import annotations

from service.fetching.fetch import Fetched, Wish, fetch

__all__ = ["Fetched", "Wish", "fetch"]
