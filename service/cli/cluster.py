"""A Dask cluster: ``cluster scheduler``, ``worker``, and ``certificates`` for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import AsJson, LogFormatOption, WithoutTls, use_tls
from service.cli.output import print_json, print_line
from service.logs import LogFormat

_DEFAULT_PORT = 8786

Tls = Annotated[
    str | None,
    typer.Option(
        "--tls",
        metavar="FOLDER",
        help="The certificates of this machine (HVXTUNE_CLUSTER_TLS).",
        show_default=False,
    ),
]


def scheduler(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = _DEFAULT_PORT,
    tls: Tls = None,
    without_tls: WithoutTls = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run the scheduler of a cluster, until told to leave."""
    from service.logs import log_to_stderr
    from tuner.executor.cluster.processes import run_scheduler

    log_to_stderr(log_format)
    use_tls(tls, without=without_tls)

    def announce(place: str) -> None:
        print_line(f"executor: dask://{place}")
        sys.stdout.flush()

    run_scheduler(host, port, announce)


def worker(
    scheduler: Annotated[
        str, typer.Option("--scheduler", metavar="HOST:PORT", help="Where the scheduler listens.")
    ],
    farm: Annotated[
        str | None,
        typer.Option(
            "--farm",
            metavar="FILE",
            help="The devices to drive (HVXTUNE_FARM_FILE).",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Candidates at once (one per processor).", show_default=False
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="The address to listen on, by which the others reach this machine (the one by "
            "which it reaches the scheduler).",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name in lists (host and process).", show_default=False)
    ] = None,
    tls: Tls = None,
    without_tls: WithoutTls = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Compile and measure candidates for the conductors of a cluster, until told to leave."""
    import socket

    from service.logs import log_to_stderr
    from tuner.executor.cluster.processes import run_worker
    from tuner.jobs.tuning import default_workers
    from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE

    log_to_stderr(log_format)
    use_tls(tls, without=without_tls)
    if farm is not None:
        os.environ[FARM_FILE_VARIABLE] = farm
    run_worker(
        scheduler,
        slots=slots or default_workers(),
        host=host,
        name=name or f"{socket.gethostname()}-{os.getpid()}",
    )


def certificates(
    hosts: Annotated[
        list[str], typer.Argument(metavar="HOST...", help="Names or addresses.", show_default=False)
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="The folder of the authority; made if missing."),
    ],
    as_json: AsJson = False,
) -> None:
    """Make an authority and a certificate for each HOST, with which a cluster keeps others out."""
    from tuner.executor.cluster.authority import make_certificates

    made = make_certificates(hosts, to)
    if as_json:
        print_json(
            {
                "authority": str(to),
                "new_authority": made.new_authority,
                "folders": {host: str(folder) for host, folder in made.folders.items()},
                "ends_at": made.ends_at.timestamp(),
            }
        )
        return
    whose = "a new authority" if made.new_authority else "the authority that was there"
    print_line(f"by {whose}, {to / 'ca.pem'}; keep {to / 'ca.key'} to yourself")
    for host, folder in made.folders.items():
        print_line(f"{host}: {folder}, valid until {made.ends_at:%Y-%m-%d}")
    print_line("copy each folder to its host, and name it there: --tls or HVXTUNE_CLUSTER_TLS")
