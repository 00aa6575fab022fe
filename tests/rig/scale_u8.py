"""The tiny kernel of the conformance suites, and one that misbehaves on purpose.

Set the environment variable ``HVXTUNE_KERNELS`` to :data:`KERNELS` to use them.
"""

from __future__ import annotations

import ctypes
import os
import time

from tuner.conformance.candidates import ScaleU8
from tuner.records.candidate import Problem
from tuner.space import Config, Directive

__all__ = ["KERNELS", "HostileU8", "ScaleU8"]

KERNELS = "scale_u8=tests.rig.scale_u8:ScaleU8,hostile_u8=tests.rig.scale_u8:HostileU8"


class HostileU8(ScaleU8):
    """Like ``scale_u8``, but its knob ``behave`` breaks the compiler."""

    name = "hostile_u8"
    behaviours = ("well", "hang", "spin", "abort", "segfault", "exit", "memory", "raise")

    def schedule(self, problem: Problem, config: Config) -> list[Directive]:
        behave = config["behave"]
        if behave == "hang":
            open("hangs", "w").close()  # in the scratch directory, for who waits until it does
            time.sleep(3600)
        elif behave == "spin":
            while True:
                pass
        elif behave == "abort":
            os.abort()
        elif behave == "segfault":
            ctypes.string_at(0)
        elif behave == "exit":
            os._exit(0)
        elif behave == "memory":
            bytearray(1 << 40)
        elif behave == "raise":
            raise RuntimeError("this schedule cannot be applied")
        return super().schedule(problem, config)
