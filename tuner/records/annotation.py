"""The comment and tags by which people find a job again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tuner.errors import UserError

MOST_TAGS: Final = 10
MOST_CHARACTERS: Final = 2000
TAG_LENGTH: Final = 40
TAG_PATTERN: Final = rf"^[a-z0-9._-]{{1,{TAG_LENGTH}}}$"
COMMENT_PATTERN: Final = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
"""Terminals show it: no control characters but tabs and line ends."""


@dataclass(frozen=True)
class Annotation:
    """The comment and tags of a job."""

    comment: str = ""
    tags: tuple[str, ...] = ()


def checked_tag(given: str) -> str:
    """``given``, if it is a tag; else ``UserError``."""
    if not re.fullmatch(TAG_PATTERN.strip("^$"), given):
        raise UserError(
            f"tag '{given[: TAG_LENGTH + 20]}'",
            accepted=f"1 to {TAG_LENGTH} of a-z, 0-9, '.', '_' and '-'",
        )
    return given


def checked_comment(given: str) -> str:
    """``given`` without blanks around it, if it is a comment; else ``UserError``."""
    text = given.replace("\r\n", "\n").strip()
    if len(text) > MOST_CHARACTERS or not re.fullmatch(COMMENT_PATTERN.strip("^$"), text):
        raise UserError(
            f"a comment of {len(text)} characters",
            accepted=f"at most {MOST_CHARACTERS}, no control characters but tabs and line ends",
        )
    return text
