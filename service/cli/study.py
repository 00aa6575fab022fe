"""A job as an Optuna study: ``export-study``."""

from __future__ import annotations

from typing import Annotated

import typer

from service.cli.output import print_line


def export_study(
    job: Annotated[str, typer.Argument(help="The job's id, or how it begins.")],
    storage: Annotated[
        str,
        typer.Option(
            metavar="URL", help="Where the study goes, as Optuna takes it: sqlite:///study.db."
        ),
    ],
) -> None:
    """Write JOB as a study that optuna-dashboard and Optuna's tools open.

    The study is named after the job. Trials that failed are in it, with their outcome. The job
    itself stays as it is; a study with this name must not be there yet.
    """
    from db import open_store
    from service.study import export

    store = open_store()
    try:
        exported = export(store, job, storage)
    finally:
        store.close()
    print_line(f"study {exported.name}: {exported.trials} trials in {storage}")
    print_line(f"look at it:  optuna-dashboard {storage}")
