"""A network's functions as one program for the DSP, and the host's side that queues calls of them.

``serve.c`` and ``buffers.c`` are the DSP's side, ``hvxtune_network.c`` the host's: C that knows no
system but by a few functions. Here the DSP is a simulator (``linux_user.c``), and pipes stand in
for FastRPC (``fastrpc_stand_in.c``).
"""

from __future__ import annotations

from tuner.network.running.image.host import Argument, Counts, Host, HostError, Status
from tuner.network.running.image.linking import REPACK, Function, linked_image
from tuner.network.running.image.simulated import CallCycles, SimulatedDsp

__all__ = [
    "REPACK",
    "Argument",
    "CallCycles",
    "Counts",
    "Function",
    "Host",
    "HostError",
    "SimulatedDsp",
    "Status",
    "linked_image",
]
