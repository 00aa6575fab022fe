"""Trees of Python text, parsed by one thread at a time.

CPython before 3.11.8 and 3.12.2 counts the depth of a tree in a place that all threads share
(python/cpython#106905). Where another thread may run while a tree is built, as it may during the
callbacks of the garbage collector that ``distributed`` installs, two that parse at once end in
``SystemError: AST constructor recursion depth mismatch``.
"""

from __future__ import annotations

import ast
import threading

_ALONE = threading.Lock()


def parse_module(text: str | bytes) -> ast.Module:
    """The tree of a module; raises what :func:`ast.parse` does, ``SyntaxError`` above all."""
    with _ALONE:
        return ast.parse(text)


def parse_expression(text: str) -> ast.Expression:
    """The tree of one expression; raises what :func:`ast.parse` does, ``SyntaxError`` above all."""
    with _ALONE:
        return ast.parse(text, mode="eval")
