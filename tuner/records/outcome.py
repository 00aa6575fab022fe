"""The ways a trial can end. Each trial has exactly one."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a candidate's way through a job ended."""

    OK = "ok"
    """Compiled, ran, every output byte right, timed."""
    INFEASIBLE = "infeasible"
    """Cannot exist on this target (too much VTCM, an instruction the measurer lacks)."""
    COMPILE_ERROR = "compile_error"
    """The code generator refused it with an error of its own."""
    COMPILER_CRASH = "compiler_crash"
    """The code generator aborted, crashed or ran out of its memory limit."""
    TIMEOUT = "timeout"
    """Compiling or running took longer than its limit."""
    WRONG_OUTPUT = "wrong_output"
    """Ran, but an output, an input or the memory around them differs from the reference."""
    RUN_ERROR = "run_error"
    """Trapped, exited early or returned an error."""
    CUTOFF = "cutoff"
    """Stopped early: slower than the early-termination budget."""
    DEVICE_ERROR = "device_error"
    """Every device that tried it failed, or the compiler was killed from outside each time; not
    the candidate's fault, and no news for the search."""
