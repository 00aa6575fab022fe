"""The tree of commands. Each group of commands is one file here and imports its work late."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli import (
    calibration,
    catalogue,
    compilation,
    conducting,
    database,
    diagnosis,
    exchange,
    farm,
    fetching,
    jobs,
    measurement,
    schedules,
    searching,
    serving,
    tokens,
    tuning,
    uploads,
)
from service.cli.options import Command

app = typer.Typer(
    name="hvxtune",
    help="Finds fast schedules for Hexagon HVX kernels and hands them to compilers.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: importing Rich would double the time to the first line
)

for command in (
    catalogue.kernels,
    catalogue.space,
    uploads.pipelines,
    tuning.tune,
    schedules.best,
    fetching.fetch,
    measurement.measure,
    compilation.compile,
    jobs.jobs,
    jobs.show,
    jobs.watch,
    jobs.cancel,
    jobs.pause,
    tuning.resume,
    jobs.export_study,
    jobs.pairs,
    serving.serve,
    calibration.calibrate,
    searching.bench_search,
    conducting.conductor,
    tokens.audit,
    diagnosis.doctor,
):
    app.command(cls=Command)(command)
app.command("export")(exchange.export_schedules)
app.command("import")(exchange.import_schedules)  # a word that no function can be called by
app.add_typer(tokens.app, name="token")
app.add_typer(farm.app, name="farm")
app.add_typer(database.app, name="db")


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
