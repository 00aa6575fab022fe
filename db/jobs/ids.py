"""Ids of jobs and batches, made to be read out and typed."""

from __future__ import annotations

import secrets

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o, u, so that an id can be read out and typed."""

_EPOCH_S = 1735689600  # 2025-01-01; seven digits of 1/32 s since then last until 2059
_TICKS_PER_S = 32
_TIME_DIGITS = 7
_RANDOM_DIGITS = 3
_MISREAD = str.maketrans("ilo", "110")


def new_job_id(now_s: float) -> str:
    """An id of ten characters for a job made at ``now_s`` (Unix time).

    Seven say when, to 1/32 s; three are random. Two jobs made within one tick have a chance of
    1 in 32768 to get the same id: the caller draws again if the store knows it already.
    """
    ticks = max(0, int((now_s - _EPOCH_S) * _TICKS_PER_S))
    return _encoded(ticks, _TIME_DIGITS) + _encoded(
        secrets.randbelow(len(ALPHABET) ** _RANDOM_DIGITS), _RANDOM_DIGITS
    )


def _encoded(number: int, digits: int) -> str:
    text = ""
    for _ in range(digits):
        number, digit = divmod(number, len(ALPHABET))
        text = ALPHABET[digit] + text
    return text


def as_typed(text: str) -> str:
    """A typed id, or the start of one, in lower case and with misread letters mended."""
    return text.strip().lower().translate(_MISREAD)
