"""Files that appear whole or not at all, however their writer ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(
    place: Path, *, durable: bool = True, opener: Callable[[str, int], int] | None = None
) -> Iterator[BinaryIO]:
    """A new file beside ``place``, which takes its name when the block ends without an error;
    until then ``place`` stays as it was. Raises ``OSError``.

    A ``durable`` file is on disk by then, and survives a power cut. ``opener`` is that of
    :func:`open`. Safe from several threads and processes: the last to finish wins.
    """
    aside = place.with_name(f".{place.name[:80]}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with open(aside, "xb", opener=opener) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        aside.replace(place)
    finally:
        with suppress(OSError):  # gone if all went well; or its folder never was one
            aside.unlink()
