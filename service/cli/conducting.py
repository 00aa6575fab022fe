"""``conductor``: a process that runs the jobs of a service."""

from __future__ import annotations

from typing import Annotated

import typer


def conductor(
    slots: Annotated[int, typer.Option(min=1, max=64, help="Jobs at once.")] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="At most so many candidates of a job in flight, whatever it asks for.",
            show_default=False,
        ),
    ] = None,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Leave when standard input ends, too.")
    ] = False,
) -> None:
    """Run jobs that were submitted to a service, until told to leave."""
    from service.conductor.process import conduct, log_to_stderr

    log_to_stderr()
    conduct(slots=slots, workers=workers, until_eof=until_eof)
