"""The file that ``--packet_analyze`` writes: commits and stalls of every packet, as JSON.

Its form is that of Qualcomm's own reader (``pa.py`` of its tools, 2014-2017) and of programs that
others have published with what they saw, up to version 2.5 of the form::

    {"version": "2.5", "siminfo": {"core": "V68N_1024", ...}, "core_packet_profile": {
        "0x000069bc": {"commits": 12, "stalls": {"TOTAL_STALLS": 195, ...}, "events": {...}}}}

The first form had neither version nor sections: addresses alone.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuner.errors import DeviceError

_PROFILE = "core_packet_profile"
_KNOWN_MAJOR = "2"
_ALL_STALLS = "TOTAL_STALLS"
_IDLE = 0xDEADBEEF
"""The address under which threads without a program are booked."""


@dataclass(frozen=True)
class PacketProfile:
    """Packets that were committed in a whole run, and the cycles they waited by cause."""

    core: str
    """The simulated core, such as ``V68N_1024``; empty if it is not named."""
    commits: int
    stalls: Mapping[str, int] = field(hash=False)


def read_packets(text: str) -> PacketProfile:
    """The profile in a file's ``text``; ``DeviceError`` for anything else, which another version
    of the simulator may write."""
    try:
        profile = _profile(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise DeviceError(
            "hexagon-sim's --packet_analyze wrote a file of another form",
            accepted=f"JSON with {_PROFILE}, of version {_KNOWN_MAJOR}.x",
            next_step="use tools whose hexagon-sim writes it, and report the version of yours",
        ) from None
    if not profile.commits:
        raise DeviceError(
            "hexagon-sim's --packet_analyze counted no packet",
            next_step="run the simulator by hand with --timing: it must run a program",
        )
    return profile


def _profile(document: Any) -> PacketProfile:
    if "version" not in document:  # the first form
        document = {"version": "2.0", _PROFILE: document}
    if document["version"].partition(".")[0] != _KNOWN_MAJOR:
        raise ValueError(document["version"])
    commits, stalls = 0, Counter[str]()
    for address, packet in document[_PROFILE].items():
        if int(address, 16) == _IDLE:
            continue
        commits += _count(packet.get("commits", 0))
        for cause, cycles in packet.get("stalls", {}).items():
            if cause != _ALL_STALLS:
                stalls[cause] += _count(cycles)
    return PacketProfile(str(document.get("siminfo", {}).get("core", "")), commits, dict(stalls))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(value)
    return value
