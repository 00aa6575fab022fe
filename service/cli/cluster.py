"""A Dask cluster: ``cluster scheduler`` and ``cluster worker``."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.options import LogFormatOption
from service.cli.output import print_line
from service.logs import LogFormat

if TYPE_CHECKING:
    from tuner.executor.cluster.encryption import Certificates

_DEFAULT_PORT = 8786

Ca = Annotated[
    str | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        help="PEM certificate of the authority that all of the cluster share.",
        envvar="HVXTUNE_DASK_TLS_CA",
        show_envvar=False,
        show_default=False,
    ),
]
Certificate = Annotated[
    str | None,
    typer.Option(
        "--tls-certificate",
        metavar="FILE",
        help="PEM certificate of this process.",
        envvar="HVXTUNE_DASK_TLS_CERTIFICATE",
        show_envvar=False,
        show_default=False,
    ),
]
Key = Annotated[
    str | None,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="The certificate's unencrypted PEM key.",
        envvar="HVXTUNE_DASK_TLS_KEY",
        show_envvar=False,
        show_default=False,
    ),
]


def scheduler(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = _DEFAULT_PORT,
    tls_ca: Ca = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run the scheduler of a cluster, until told to leave."""
    from service.logs import log_to_stderr
    from tuner.executor.cluster.processes import run_scheduler
    from tuner.shipped import with_places

    log_to_stderr(log_format)
    given = _certificates(tls_ca, tls_certificate, tls_key)

    def announce(address: str) -> None:
        kind, _, place = address.partition("://")
        print_line(f"executor: {'dask+tls' if kind == 'tls' else 'dask'}://{place}")
        if given is None and host not in ("127.0.0.1", "::1", "localhost"):
            print_line(
                "warning: anyone who reaches this port can run code on all workers: give --tls-ca, "
                f"--tls-certificate and --tls-key ({with_places('docs/cluster.md')})"
            )
        sys.stdout.flush()

    run_scheduler(host, port, given, announce)


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
            help="The address by which the others reach this machine.", show_default=False
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Its name in lists (host and process).", show_default=False)
    ] = None,
    tls_ca: Ca = None,
    tls_certificate: Certificate = None,
    tls_key: Key = None,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Compile and measure candidates for the conductors of a cluster, until told to leave."""
    import socket

    from service.logs import log_to_stderr
    from tuner.executor.cluster.connection import dask_address
    from tuner.executor.cluster.processes import run_worker
    from tuner.jobs.tuning import default_workers
    from tuner.measure.farm.farm_file import FARM_FILE_VARIABLE

    log_to_stderr(log_format)
    given = _certificates(tls_ca, tls_certificate, tls_key)
    if farm is not None:
        os.environ[FARM_FILE_VARIABLE] = farm
    place = scheduler.partition("://")[2] or scheduler
    run_worker(
        dask_address(f"{'dask+tls' if given else 'dask'}://{place}"),
        slots=slots or default_workers(),
        host=host,
        name=name or f"{socket.gethostname()}-{os.getpid()}",
        certificates=given,
    )


def _certificates(ca: str | None, certificate: str | None, key: str | None) -> Certificates | None:
    from tuner.executor.cluster import encryption

    given = {
        encryption.CA_VARIABLE: ca or "",
        encryption.CERTIFICATE_VARIABLE: certificate or "",
        encryption.KEY_VARIABLE: key or "",
    }
    return encryption.certificates(given)
