"""A compile server whose memory lies elsewhere: with address space randomization, and with modules
and blocks that other compile servers have not. ``python -m tests.rig.other_layout`` takes the
arguments of ``tuner.codegen.halide.server``."""

import sys

import sqlalchemy  # noqa: F401 - only to be loaded

from tuner.codegen.halide import server

server._switch_off_randomization = lambda: None  # type: ignore[attr-defined]
sys.modules["tests.rig.other_layout.blocks"] = [bytes(997 * size) for size in range(1500)]  # type: ignore[assignment]
server.main()
