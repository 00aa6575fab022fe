"""``docs``: the documentation as a site, for a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line
from tuner.errors import UserError

HOST = "127.0.0.1"
DOCS_PORT = 8101


def docs(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any free one.")
    ] = DOCS_PORT,
    build: Annotated[
        Path | None,
        typer.Option(
            "--build",
            metavar="DIR",
            help="Write the site of this version into a folder below DIR instead.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show this documentation in a browser of this machine, until Ctrl-C."""
    import tempfile

    from service.cli.site import build as build_site

    if build is not None:
        folder = _publish(build)
        if as_json:
            print_json({"site": str(folder)})
        else:
            print_line(f"{folder / 'index.html'}")
        return
    with tempfile.TemporaryDirectory(prefix="hvxtune-docs-") as made:
        build_site(Path(made), strict=False)
        serve(Path(made), port, as_json=as_json)


def _publish(root: Path) -> Path:
    """Builds the site into a folder named by the version, beside those of other versions, and has
    ``index.html`` lead to it."""
    from importlib.metadata import version

    from service.cli.site import build as build_site

    number = version("hvxtune")
    folder = root.absolute() / number
    build_site(folder, strict=True)
    (root / "index.html").write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={number}/index.html">'
        f'<title>hvxtune</title><a href="{number}/index.html">hvxtune {number}</a>\n'
    )
    return folder


def serve(folder: Path, port: int, *, as_json: bool) -> None:
    """Serves the files in ``folder`` on loopback until Ctrl-C or SIGTERM."""
    import json
    import signal
    import sys
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Requests are not listed."""

    try:
        server = ThreadingHTTPServer((HOST, port), partial(Quiet, directory=str(folder)))
    except OSError as error:
        raise UserError(
            f"--port {port}: {error.strerror}",
            accepted="a free port; 0 for any",
        ) from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server:
        url = f"http://{HOST}:{server.server_address[1]}/"
        print_line(json.dumps({"url": url}) if as_json else f"{url} (Ctrl-C ends it)")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
