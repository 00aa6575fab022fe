"""Files as bodies of requests and replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tuner.errors import UserError
from tuner.machine.whole_files import written_whole

CHUNK_BYTES = 1 << 16


@contextmanager
def opened(file: Path) -> Iterator[Callable[[int], bytes]]:
    """Yields a function that reads the next bytes of ``file``."""
    try:
        with file.open("rb") as content:
            yield content.read
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None


@contextmanager
def saving(file: Path) -> Iterator[Callable[[bytes], object]]:
    """Yields a function that writes the next part of ``file``, which appears when it is whole."""
    try:
        with written_whole(file, durable=False) as opened:
            yield opened.write
    except OSError as error:
        raise UserError(
            f"cannot write {file}: {error.strerror}", accepted="a file in a folder you can write to"
        ) from None
