"""The text of a token, ``hvx_<id>_<secret>``, and keeping its secret out of what is written down.

Both parts are base32 in small letters, so a double click marks a token whole. The secret is 256
random bits; only its SHA-256 is stored. That needs no salt and no slow hash: there is nothing to
guess and no dictionary of such secrets.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PREFIX = "hvx_"
ID_CHARACTERS = 8
SECRET_BYTES = 32
SECRET_CHARACTERS = 52

_WHOLE = re.compile(rf"hvx_([a-z2-7]{{{ID_CHARACTERS}}})_([a-z2-7]{{{SECRET_CHARACTERS}}})")
_INSIDE = re.compile(rf"(hvx_[a-z2-7]{{{ID_CHARACTERS}}})_[a-z2-7]{{20,}}", re.IGNORECASE)
"""Also one that was cut off or is in capitals, but no name such as ``hvx_quantize_rows``."""


@dataclass(frozen=True)
class TokenText:
    """The two parts of a token. Its ``repr`` does not show the secret."""

    id: str
    secret: str = field(repr=False)

    @property
    def text(self) -> str:
        """The token as its holder keeps and sends it."""
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def digest(self) -> str:
        """The stored form: SHA-256 of the secret, in hexadecimal."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_token_text() -> TokenText:
    """A new random token."""
    return TokenText(
        _base32(secrets.token_bytes(ID_CHARACTERS * 5 // 8)),
        _base32(secrets.token_bytes(SECRET_BYTES)),
    )


def parse(text: str) -> TokenText | None:
    """The parts of ``text``, or ``None`` unless it has exactly the form of a token."""
    found = _WHOLE.fullmatch(text)
    return None if found is None else TokenText(found[1], found[2])


def holds_token(text: str) -> bool:
    """Whether there is a whole token in ``text``."""
    return PREFIX in text and _WHOLE.search(text) is not None


def redact(text: str) -> str:
    """``text`` with the secrets of all tokens in it left out."""
    return _INSIDE.sub(r"\1_***", text) if PREFIX in text.lower() else text


def redact_all(value: Any) -> Any:
    """``value`` (as JSON has them) with the secrets of all tokens in its texts left out."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {redact(str(name)): redact_all(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_all(part) for part in value]
    return value


class RedactingFormatter(logging.Formatter):
    """Keeps tokens out of logs, tracebacks included: somebody will put one into an address."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without the secrets of tokens."""
        return redact(super().format(record))


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode().rstrip("=").lower()
