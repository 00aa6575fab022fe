"""Text that a file or somebody else chose, on its way to a terminal, a log or a table."""

from __future__ import annotations


def plain(text: str | bytes) -> str:
    """``text`` in one line, in which nothing moves a cursor, forges a line or turns the direction
    of writing: what is not printable stands as an escape, ``\\x1b`` or ``\\n``. So do bytes that
    are not UTF-8, of which protobuf makes no ``str``."""
    if isinstance(text, bytes):
        text = text.decode(errors="backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain_lines(text: str) -> str:
    """:func:`plain` of each line."""
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))
