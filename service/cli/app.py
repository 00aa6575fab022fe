"""The tree of commands, and errors in a command line. Each group of commands is one file here and
imports its work late.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from service.cli import (
    annotating,
    calibration,
    catalogue,
    ci,
    cluster,
    compilation,
    database,
    diagnosis,
    documentation,
    farm,
    jobs,
    linking,
    measurement,
    networks,
    packages,
    pipelines,
    rechecking,
    schedules,
    searching,
    serving,
    tokens,
    top,
    tuning,
)
from service.cli import database as exchange
from service.cli import serving as conducting
from service.cli.options import Command
from tuner.errors import UserError


class Commands(TyperGroup):
    """A group that lists its commands with the whole first sentence of each, folded: Typer cuts it
    at the width."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(limit=len(command.help or "")))
            for name, command in found
            if command is not None
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    name="hvxtune",
    cls=Commands,
    help="Finds fast schedules for Hexagon HVX kernels and hands them to compilers.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing Rich would double the time to the first line
)

for command in (
    catalogue.kernels,
    catalogue.space,
    catalogue.targets,
    pipelines.pipelines,
    tuning.tune,
    schedules.best,
    schedules.fetch,
    ci.ci,
    rechecking.recheck,
    measurement.measure,
    compilation.compile,
    jobs.jobs,
    top.top,
    jobs.show,
    jobs.watch,
    jobs.cancel,
    jobs.pause,
    annotating.annotate,
    jobs.conductors,
    tuning.resume,
    jobs.export_study,
    jobs.pairs,
    serving.serve,
    calibration.calibrate,
    searching.bench_search,
    conducting.conductor,
    cluster.scheduler,
    cluster.worker,
    tokens.audit,
    linking.runtime,
    linking.simulate,
    diagnosis.setup,
    diagnosis.doctor,
    diagnosis.where,
    documentation.docs,
):
    app.command(cls=Command)(command)
app.command("export")(exchange.export_schedules)
app.command("import")(exchange.import_schedules)  # a word that no function can be called by
for name, group in {
    "token": tokens.app,
    "farm": farm.app,
    "network": networks.app,
    "db": database.app,
    "package": packages.app,
}.items():
    app.add_typer(group, name=name, cls=Commands)


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
        next_step = f"did you mean {suggested[1] or suggested[2]}?"
    accepted = ", ".join(_accepted(error, context.command))
    return UserError(_sentence(message), accepted=accepted, next_step=next_step)


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
