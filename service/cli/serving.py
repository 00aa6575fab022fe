"""``serve``, the service on this machine, and ``cluster conductor``, which runs its jobs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from service.cli.options import (
    AsJson,
    ExecutorAddress,
    LogFormatOption,
    WithoutTls,
    use_executor,
    use_tls,
)
from service.cli.output import print_line
from service.logs import LogFormat
from service.settings import (
    DEFAULT_HOST,
    DEFAULT_PORT,
    TRUSTED_PROXIES_VARIABLE,
    Settings,
    read_trusted,
)

MOST_PROCESSES = 256
MOST_SLOTS = 64
CONDUCTOR = (sys.executable, "-P", "-m", "service.cli", "cluster", "conductor")
"""The command that starts a conductor. It drains on SIGTERM, and ends when its standard input
closes: the other end of the pipe is the service's, so that even a killed one leaves no conductor
behind."""


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = DEFAULT_HOST,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = DEFAULT_PORT,
    conductors: Annotated[
        int,
        typer.Option(
            min=0, max=MOST_PROCESSES, help="Processes that run jobs; 0 leaves that to others."
        ),
    ] = 1,
    slots: Annotated[
        int, typer.Option(min=1, max=MOST_SLOTS, help="Jobs that each of them runs at once.")
    ] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_PROCESSES,
            help="Candidates in flight of a job that does not say it (one per processor).",
            show_default=False,
        ),
    ] = None,
    tls_certificate: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="PEM certificate with its chain: serves HTTPS."),
    ] = None,
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="The certificate's unencrypted PEM key.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--trusted-proxy",
            metavar="ADDRESS",
            help="An address or network (10.0.0.0/8) of proxies whose X-Forwarded-For and "
            "X-Forwarded-Proto are believed; may be repeated. By default nobody's are.",
            envvar=TRUSTED_PROXIES_VARIABLE,
            show_envvar=False,
            show_default=False,
        ),
    ] = None,
    root_path: Annotated[
        str,
        typer.Option(
            "--root-path",
            metavar="PATH",
            help="The path below which a proxy publishes the service, such as /hvx; it takes that "
            "off the requests that it forwards.",
            show_default=False,
        ),
    ] = "",
    artifacts: Annotated[
        str | None,
        typer.Option(
            "--artifacts",
            metavar="STORAGE",
            help="Where objects lie: folder:PATH or database: "
            "(the folder artifacts of the state directory).",
            envvar="HVXTUNE_ARTIFACTS",
            show_envvar=False,
            show_default=False,
        ),
    ] = None,
    executor: ExecutorAddress = None,
    without_tls: WithoutTls = False,
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log every request on standard error.")
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
    as_json: AsJson = False,
) -> None:
    """Serve jobs and schedules over REST until Ctrl-C."""
    from service.server.serving import serve as run
    from service.sub_path import read_root_path

    use_tls(without=without_tls)
    use_executor(executor)
    settings = Settings(
        host=host,
        port=port,
        conductors=conductors,
        slots=slots,
        workers=workers,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        trusted_proxies=read_trusted(trusted_proxy or ()),
        root_path=read_root_path(root_path),
        artifacts=artifacts,
    )
    announce = _print_as_json if as_json else _print
    run(settings, announce, conductor=CONDUCTOR, access_log=access_log, log_format=log_format)


def _print_as_json(about: Mapping[str, Any]) -> None:
    """On one line: the process that started the service goes on reading after it."""
    import json

    print_line(json.dumps(about))
    sys.stdout.flush()


def _print(about: Mapping[str, Any]) -> None:
    import sys

    print_line(f"hvxtune listens on {about['url']} (routes: {about['url']}/docs)")
    print_line(f"database {about['database']}, artifacts in {about['artifacts']}")
    if "token" in about:
        print_line(f"first token, with scope admin, shown this once: {about['token']}")
    if "token_file" in about:
        print_line(f"commands on this machine find it in {about['token_file']}")
    for note in about["notes"]:
        print_line(note)
    print_line("Ctrl-C ends it")
    sys.stdout.flush()


def conductor(
    slots: Annotated[int, typer.Option(min=1, max=64, help="Jobs at once.")] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=256,
            help="The most candidates of a job in flight, whatever it asks for.",
            show_default=False,
        ),
    ] = None,
    executor: ExecutorAddress = None,
    without_tls: WithoutTls = False,
    until_eof: Annotated[
        bool, typer.Option("--until-eof", help="Leave when standard input ends, too.")
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Run jobs that were submitted to a service, until told to leave."""
    from service.conductor.process import conduct
    from service.logs import log_to_stderr

    use_tls(without=without_tls)
    use_executor(executor)
    log_to_stderr(log_format)
    conduct(slots=slots, workers=workers, until_eof=until_eof)
