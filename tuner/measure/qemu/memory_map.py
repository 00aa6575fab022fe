"""Where harness and candidate lie in the simulated address space.

The same as ``harness/program.ld``, ``harness/call.S`` and ``harness/memory_map.h``.
"""

WINDOW_BEGIN = 0x00010000
"""The packet that calls the candidate: program.ld puts it first."""
WINDOW_END = WINDOW_BEGIN + 4
"""The packet after it, which the candidate returns to (call.S)."""
MARKS_BEGIN = WINDOW_BEGIN + 8
"""Three packets that mark parallel loops: begin, task, end (call.S)."""
CANDIDATE_BEGIN = 0x00100000
"""Code from here on is the candidate's (program.ld)."""
CASE_BEGIN = 0x30000000
"""The buffers of the case under way."""
VTCM_BEGIN = 0xD8000000
STACK_BEGIN = 0xE0000000
"""The candidate's stack."""
STACK_BYTES = 0x00100000
