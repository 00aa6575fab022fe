"""Mistakes in a command line, said like every other error: the value, what is accepted, a hint."""

from __future__ import annotations

import re
from typing import Any

import typer

from tuner.errors import UserError

_SUGGESTION = re.compile(r" (?:Did you mean '(.+)'\?|\(Possible options: (.+)\))$")


def usage_error(error: typer.TyperException) -> UserError:
    """``error`` of the command-line parser as a ``UserError``.

    Names the commands or options there are where an unknown one was given, the kernels where none
    was, and the value where one does not fit its option.
    """
    message = " ".join(error.format_message().split())
    context: typer.Context | None = getattr(error, "ctx", None)
    if context is None:
        return UserError(_sentence(message), next_step="see `hvxtune --help`")
    next_step = f"see `{context.command_path} --help`"
    misfit = _misfit(error)
    if misfit is not None:
        return UserError(misfit[0], accepted=misfit[1], next_step=next_step)
    suggested = _SUGGESTION.search(message)
    if suggested:
        message = message[: suggested.start()]
        next_step = f"did you mean {suggested[1] or suggested[2]}?"
    accepted = ", ".join(_accepted(error, context.command))
    return UserError(_sentence(message), accepted=accepted, next_step=next_step)


def _sentence(message: str) -> str:
    return message[:1].lower() + message[1:]


def _misfit(error: typer.TyperException) -> tuple[str, str] | None:
    """The option with its unfit value, and what it takes; ``None`` for other mistakes."""
    details = getattr(error.__cause__, "errors", None)
    if details is None:
        return None
    first = details()[0]
    param: Any = getattr(error, "param", None)
    _, one_of, choices = first["msg"].partition(" is not one of ")
    if one_of:
        accepted = choices.rstrip(".").replace("'", "")
    else:
        accepted = first["msg"].removeprefix("Input should be ").partition(",")[0]
    return f"{max(param.opts, key=len)} '{first['input']}'", accepted


def _accepted(error: typer.TyperException, command: Any) -> list[str]:
    if hasattr(error, "option_name"):
        return [max(param.opts, key=len) for param in command.params if param.opts[0][:1] == "-"]
    if hasattr(command, "commands"):
        return list(command.commands)
    metavar: str = getattr(getattr(error, "param", None), "metavar", None) or ""
    if metavar == "KERNEL":
        from tuner.kernels import kernel_names

        return kernel_names()
    return metavar.split("|") if "|" in metavar else []
