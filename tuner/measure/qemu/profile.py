"""What was counted at each packet of the timed call, added up over all blocks it is part of.

QEMU's blocks overlap: a loop's first iteration belongs to the block that runs into it. Packets are
therefore told apart by their address alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuner.measure.qemu.disassembly import Decoded, decode
from tuner.measure.qemu.frame import stack_accesses
from tuner.measure.qemu.rules import Rules
from tuner.measure.qemu.session import Results
from tuner.measure.qemu.simulation import Simulation

RARER_WAY = "rarer_way"
"""How often a conditional jump went the way it goes less often."""
_NOT_COUNTED = ("address", "text", "traits", "unused")
"""Fields of the packet table that are no counts; all others are events."""

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class ProfiledPacket:
    """A packet that ran: how often, its dependency stalls by cause, what else happened there.

    Of all threads together, before the model makes cycles of them. ``spills`` are the vector
    accesses to the stack frame in one execution.
    """

    address: int
    count: int
    stalls: Mapping[str, int] = field(hash=False)
    events: Mapping[str, int] = field(hash=False)
    decoded: Decoded
    spills: int


def profile_of(simulation: Simulation, rules: Rules) -> list[ProfiledPacket]:
    """The packets of the timed call by address. The run must have kept the disassembly.

    Counts and stalls add up to the sums of the run's ``timing``.
    """
    results = simulation.results
    addresses, first, of_record = np.unique(
        results.packet_table["address"], return_index=True, return_inverse=True
    )
    places = _Places(results)
    of_place = of_record[places.record]
    counts: Counts = np.zeros(addresses.size, np.int64)
    np.add.at(counts, of_place, places.count)
    stalls: Counts = np.zeros((addresses.size, len(rules.causes)), np.int64)
    np.add.at(stalls, (of_place, places.cause), places.count * places.stalls)
    events = _events(results, addresses, of_record)
    ran = np.flatnonzero(counts)
    decoded = {}
    for i in ran:
        address = int(addresses[i])
        text = simulation.texts[first[i]]
        decoded[address] = decode(address, text, rules, simulation.functions)
    spills = stack_accesses(decoded)
    return [
        ProfiledPacket(
            address=address,
            count=int(counts[i]),
            stalls={rules.causes[c]: int(stalls[i, c]) for c in np.flatnonzero(stalls[i])},
            events={name: int(of[i]) for name, of in events.items() if of[i]},
            decoded=packet,
            spills=spills[address],
        )
        for i, (address, packet) in zip(ran, decoded.items(), strict=True)
    ]


class _Places:
    """Every packet of every transition: its row in the packet table, what it cost each time."""

    def __init__(self, results: Results) -> None:
        entered = results.transitions
        lengths = results.blocks["packets"][entered["block"]].astype(np.int64)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        first = results.blocks["first_packet"][entered["block"]].astype(np.int64)
        details = np.repeat(entered["details"].astype(np.int64), lengths) + within
        self.record = np.repeat(first, lengths) + within
        self.count = np.repeat(entered["count"].astype(np.int64), lengths)
        self.stalls = results.details["stalls"][details].astype(np.int64)
        self.cause = results.details["cause"][details]


def _events(
    results: Results, addresses: NDArray[Any], of_record: NDArray[np.intp]
) -> dict[str, Counts]:
    """Whatever else is counted at each of ``addresses``, by name; each event has that shape."""
    events = {}
    table = results.packet_table
    for name in table.dtype.names or ():
        if name not in _NOT_COUNTED:
            events[name] = np.zeros(addresses.size, np.int64)
            np.add.at(events[name], of_record, table[name].astype(np.int64))
    events[RARER_WAY] = np.zeros(addresses.size, np.int64)
    at = np.searchsorted(addresses, results.branches["address"])
    events[RARER_WAY][at] = results.branches["went_to"].min(axis=1)
    return events
