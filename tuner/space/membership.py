"""Whether values are a point of a space, decided by one function made for the space.

Reading conditions one by one costs an ``eval`` each, and a service that checks every config before
it hands it out does that some thousands of times a second. Here all conditions of a space become
the body of one function, in a tenth of the time a call.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tuner.space.expression import Expression

Check = Callable[[Any, Mapping[str, Any], Sequence[Sequence[Any]]], bool]
"""Of values, of the constants, and of the choices of each knob: true only for values that are a
config. False may also mean that a condition divides by zero: whoever gets it looks closer."""

_INDENT = " " * 8


def compile_check(
    knobs: Sequence[tuple[str, Expression | None]], constraints: Iterable[Expression]
) -> Check:
    """The check of spaces with these knobs (name and condition, in order) and constraints.

    Nothing but the names, which are identifiers, and the whitelisted operators of
    :mod:`tuner.space.expression` gets into the text that is compiled.
    """
    maker = _Maker(knobs)
    for position, (name, condition) in enumerate(knobs):
        maker.knob(position, name, condition)
    for constraint in constraints:
        maker.constraint(constraint)
    made: dict[str, Any] = {}
    exec(compile(maker.text(), "<space>", "exec"), {"__builtins__": _BUILTINS}, made)  # noqa: S102
    check: Check = made["check"]
    return check


_BUILTINS = {
    "bool": bool,
    "len": len,
    "KeyError": KeyError,
    "TypeError": TypeError,
    "ZeroDivisionError": ZeroDivisionError,
}


class _Maker:
    """Writes the function. ``k_N`` is the value of knob N, ``a_N`` whether it is active,
    ``c_NAME`` a constant."""

    def __init__(self, knobs: Sequence[tuple[str, Expression | None]]) -> None:
        self._positions = {name: position for position, (name, _) in enumerate(knobs)}
        self._conditional = {p for p, (_, condition) in enumerate(knobs) if condition is not None}
        self._lines: list[str] = []
        self._constants: set[str] = set()

    def knob(self, position: int, name: str, condition: Expression | None) -> None:
        """It has a value, one of its choices, if and only if it is active."""
        indent = _INDENT
        if condition is not None:
            self._lines.append(f"{indent}a_{position} = {self._guarded('and', condition)}")
            self._lines.append(f"{indent}if a_{position}:")
            indent += "    "
            self._lines.append(f"{indent}active += 1")
        value = f"k_{position}"
        self._lines += [
            f"{indent}{value} = values[{name!r}]",
            f"{indent}if {value} not in choices[{position}] or {value}.__class__ is bool:",
            f"{indent}    return False",
        ]

    def constraint(self, constraint: Expression) -> None:
        """It holds where all knobs that it names are active."""
        guard = self._guarded("and not", constraint)
        self._lines += [f"{_INDENT}if {guard}:", f"{_INDENT}    return False"]

    def text(self) -> str:
        """The whole function."""
        constants = [f"{_INDENT}c_{name} = constants[{name!r}]" for name in sorted(self._constants)]
        always = len(self._positions) - len(self._conditional)
        return "\n".join(
            [
                "def check(values, constants, choices):",
                "    try:",
                *constants,
                f"{_INDENT}active = {always}",
                *self._lines,
                f"{_INDENT}return active == len(values)",  # and there are no others
                "    except (KeyError, TypeError, ZeroDivisionError):",
                f"{_INDENT}return False",
                "",
            ]
        )

    def _guarded(self, joint: str, condition: Expression) -> str:
        """``condition``, read only where the conditional knobs it names are active."""
        named = {self._positions[n] for n in condition.names if n in self._positions}
        guards = [f"a_{position}" for position in sorted(named & self._conditional)]
        return f"{' and '.join(guards) or 'True'} {joint} ({self._renamed(condition)})"

    def _renamed(self, condition: Expression) -> str:
        tree = ast.parse(condition.text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                position = self._positions.get(node.id)
                if position is None:
                    self._constants.add(node.id)
                node.id = f"c_{node.id}" if position is None else f"k_{position}"
        return ast.unparse(tree)
