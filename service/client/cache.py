"""The files that a client keeps, so that builds work when the service does not answer.

Two folders: ``files`` is that of an archive (:mod:`tuner.keeping.archive`), ``answers`` has the
last good answer to a question, with its ETag, under a digest of server and question. Files are
written whole: builds that run at the same time see all of one or nothing.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuner.errors import StoreError
from tuner.identity import digest_of, digest_of_bytes
from tuner.keeping.archive import FILES
from tuner.machine.whole_files import write_whole
from tuner.paths import cached

_FOLDER = "client"


@dataclass(frozen=True)
class KeptAnswer:
    """An answer that was current ``at`` a Unix time in seconds."""

    body: Any
    etag: str
    at: float

    @property
    def age_s(self) -> float:
        """Seconds since the service last said so."""
        return max(0.0, time.time() - self.at)


class ClientCache:
    """Files and answers kept in ``folder``; by default in the machine's cache.

    An unusable cache is not an error: nothing is found in it, and nothing kept. A file whose
    content does not match its name is not found either."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def _place(self, *parts: str) -> Path:
        folder = self._folder or cached(_FOLDER)
        return folder.joinpath(*parts)

    def _kept(self, *parts: str) -> bytes | None:
        """The content of a file; ``None`` if it is not there or cannot be read."""
        with contextlib.suppress(OSError, StoreError):
            return self._place(*parts).read_bytes()
        return None

    def object(self, digest: str) -> bytes | None:
        """The file with that SHA-256."""
        content = self._kept(FILES, digest)
        return content if content is not None and digest_of_bytes(content) == digest else None

    def keep_object(self, content: bytes) -> str:
        """Keeps a file; returns its SHA-256."""
        digest = digest_of_bytes(content)
        if self.object(digest) is None:
            self._write(content, FILES, digest)
        return digest

    def answer(self, server: str, question: Any) -> KeptAnswer | None:
        """The last good answer of ``server`` to ``question``."""
        name = f"{digest_of([server, question])}.json"
        content = self._kept("answers", name)
        try:
            kept = json.loads(content or b"null")
            return KeptAnswer(kept["body"], str(kept["etag"]), float(kept["at"]))
        except (ValueError, TypeError, KeyError):
            return None

    def keep_answer(self, server: str, question: Any, body: Any, etag: str) -> None:
        """Keeps an answer that is current now."""
        kept = {
            "server": server,
            "question": question,
            "etag": etag,
            "at": time.time(),
            "body": body,
        }
        name = f"{digest_of([server, question])}.json"
        self._write(json.dumps(kept, indent=1).encode(), "answers", name)

    def _write(self, content: bytes, *parts: str) -> None:
        try:
            place = self._place(*parts)
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content)
        except (OSError, StoreError):
            return  # this build has what it asked for; only the next one loses
