"""A compile server that begins before a job needs it."""

from __future__ import annotations

from tuner.codegen.halide import servers
from tuner.codegen.halide.servers import (
    MEMORY_LIMIT_BYTES,
    TIME_LIMIT_S,
    CompileServer,
    begin_spare,
)


def test_a_server_begun_ahead_is_one_and_taken_once() -> None:
    begin_spare()
    begin_spare()
    first, second = (CompileServer(TIME_LIMIT_S, MEMORY_LIMIT_BYTES) for _ in range(2))
    try:
        (spare,) = servers._spare
        first.start()
        second.start()
        assert first.directory == spare.directory != second.directory
        assert not servers._spare
    finally:
        first.close()
        second.close()
