"""The tree of commands, and errors in a command line. Each command is a function in one of the
files here, which is imported when somebody asks for it.
"""

from __future__ import annotations

import re
from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.cli.options import Command, format_options
from tuner.errors import UserError


@dataclass(frozen=True)
class Group:
    """Commands that concern one thing: the place of each by its name."""

    help: str
    commands: Mapping[str, str]


PANELS: Mapping[str, Mapping[str, str | Group]] = {
    "Daily work": {
        "tune": "tuning:tune",
        "best": "schedules:best",
        "fetch": "schedules:fetch",
        "show": "jobs:show",
        "jobs": "jobs:jobs",
        "network": Group(
            "Read, tune, plan, run and bundle quantized networks.",
            {
                "import": "networks:import_network",
                "run": "networks:run_network",
                "plan": "networks:plan_network",
                "tune": "networks:tune_network",
                "bundle": "networks:bundle_network",
            },
        ),
        "package": Group(
            "Bring kernels of your own, in C with intrinsics and more.",
            {
                "new": "packages:new",
                "check": "packages:check",
                "watch": "packages:watch",
                "register": "packages:register",
                "list": "packages:list_packages",
                "remove": "packages:remove",
                "schema": "packages:schema",
            },
        ),
        "serve": "serving:serve",
        "setup": "diagnosis:setup",
        "doctor": "diagnosis:doctor",
    },
    "Explore": {
        "targets": "catalogue:targets",
        "kernel": Group(
            "List kernels; show, measure and compile single schedules of one.",
            {
                "list": "catalogue:kernels",
                "pipelines": "pipelines:pipelines",
                "space": "catalogue:space",
                "measure": "measurement:measure",
                "compile": "compilation:compile",
            },
        ),
        "schedule": Group(
            "Check pinned and stored schedules.",
            {"ci": "ci:ci", "recheck": "rechecking:recheck"},
        ),
        "search": Group("Compare ways to search.", {"bench": "searching:bench"}),
    },
    "Operate": {
        "job": Group(
            "Watch, steer and annotate jobs.",
            {
                "watch": "jobs:watch",
                "pause": "jobs:pause",
                "resume": "tuning:resume",
                "cancel": "jobs:cancel",
                "annotate": "annotating:annotate",
            },
        ),
        "farm": Group(
            "Look after the devices that measure.",
            {
                "kinds": "farm:kinds",
                "list": "farm:list_devices",
                "check": "farm:check",
                "drain": "farm:drain",
                "quarantine": "farm:quarantine",
                "release": "farm:release",
                "calibrate": "calibration:calibrate",
            },
        ),
        "cluster": Group(
            "Run jobs on several machines.",
            {
                "scheduler": "cluster:scheduler",
                "worker": "cluster:worker",
                "conductor": "serving:conductor",
                "list": "jobs:conductors",
                "certificates": "cluster:certificates",
            },
        ),
        "token": Group(
            "Make, list and revoke the tokens of the service; see who did what.",
            {
                "create": "tokens:create",
                "list": "tokens:list_tokens",
                "revoke": "tokens:revoke",
                "audit": "tokens:audit",
            },
        ),
        "db": Group(
            "Look after the database: schema, backups, copies, objects, schedules as a file.",
            {
                "backup": "database:backup",
                "restore": "database:restore",
                "copy": "database:copy",
                "export": "database:export_schedules",
                "import": "database:import_schedules",
                "artifacts": "database:artifacts",
                "upgrade": "database:upgrade",
            },
        ),
        "tool": Group(
            "Link and simulate programs, find the shipped files, read this documentation.",
            {
                "runtime": "linking:runtime",
                "simulate": "linking:simulate",
                "where": "diagnosis:where",
                "docs": "documentation:docs",
            },
        ),
    },
}
"""Every command as ``MODULE:FUNCTION`` of this folder, in the order in which help lists them."""


class Commands(TyperGroup):
    """A group whose commands are made when they are looked up. Help lists them by panel, with the
    whole first sentence of each, folded: Typer cuts it at the width."""

    panels: Mapping[str, Mapping[str, str | Group]]

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = _Late(
            {name: place for panel in self.panels.values() for name, place in panel.items()}
        )
        super().__init__(**attributes)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names alone: nothing is imported."""
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands, then the options."""
        for panel, names in self.panels.items():
            with formatter.section(panel):
                found = [(name, self.commands[name]) for name in names]
                rows = [
                    (name, one.get_short_help_str(limit=len(one.help or ""))) for name, one in found
                ]
                formatter.write_dl(rows)
        format_options(self, ctx, formatter)


class _Late(UserDict[str, Any]):
    """Commands by name, from their places."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, str | Group):
            found = self.data[name] = _made(name, found)
        return found


def _made(name: str, found: str | Group) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(found, Group):
        kind = type("CommandsOfGroup", (Commands,), {"panels": {"Commands": found.commands}})
        app.callback(cls=kind, help=found.help)(_nothing)
    else:
        module, _, function = found.partition(":")
        app.command(name, cls=Command)(getattr(import_module(f"service.cli.{module}"), function))
    return typer.main.get_command(app)


def _nothing() -> None:
    """A group by itself does nothing."""


class _AllCommands(Commands):
    panels = PANELS


app = typer.Typer(
    name="hvxtune",
    cls=_AllCommands,
    help="Finds fast schedules for Hexagon HVX kernels and hands them to compilers.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing Rich would double the time to the first line
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"hvxtune {version('hvxtune')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Finds fast schedules for Hexagon HVX kernels and hands them to compilers."""


_SUGGESTION = re.compile(r" (?:Did you mean '(.+)'\?|\(Possible options: (.+)\))$")


def usage_error(error: typer.TyperException) -> UserError:
    """``error`` of the command-line parser as a ``UserError``. It names the value that does not fit
    its option, the commands or options beside an unknown one, and the kernels if none was given.
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
        near = suggested[1] or suggested[2]
        next_step = "did you mean {}?".format(near.replace("', '", " or "))
    if moved := _in_groups(context, message):
        next_step = f"did you mean {moved}?"
    accepted = ", ".join(_accepted(error, context.command))
    return UserError(_sentence(message), accepted=accepted, next_step=next_step)


def _in_groups(context: typer.Context, message: str) -> str:
    """The commands of groups that are called as the one that is not found."""
    named = re.fullmatch(r"No such command '(.+?)'\.?", message)
    if named is None or context.parent is not None:
        return ""
    groups = [
        (name, group.commands)
        for panel in PANELS.values()
        for name, group in panel.items()
        if isinstance(group, Group)
    ]
    return " or ".join(f"hvxtune {name} {named[1]}" for name, own in groups if named[1] in own)


def _sentence(message: str) -> str:
    return message[:1].lower() + message[1:]


def _misfit(error: typer.TyperException) -> tuple[str, str] | None:
    """The option with its unfit value, and what it accepts; ``None`` for other mistakes."""
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
