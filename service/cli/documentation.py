"""``tool docs``: the documentation as a site, for a browser on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line, print_table
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
        _publish(build, as_json)
        return
    with tempfile.TemporaryDirectory(prefix="hvxtune-docs-") as made:
        build_site(Path(made), strict=False)
        serve(Path(made), port, as_json=as_json)


def _publish(root: Path, as_json: bool) -> None:
    """Builds the site into a folder named by the version, beside those of other versions, and says
    how long its pages take to read."""
    from importlib.metadata import version

    from service.cli.site import build as build_site
    from service.cli.site.reading import WORDS_A_MINUTE, minutes, word_counts
    from service.cli.site.versions import list_versions
    from tuner.shipped import shipped

    folder = root.absolute() / version("hvxtune")
    build_site(folder, strict=True, versions=True)
    versions = list_versions(root)
    words = word_counts(shipped("docs"))
    if as_json:
        print_json({"site": str(folder), "versions": versions, "words": dict(words)})
        return
    print_table(
        ("page", "words", f"minutes at {WORDS_A_MINUTE} words"),
        [(page, f"{count:,}", minutes(count)) for page, count in words.items()],
        numeric=("words", f"minutes at {WORDS_A_MINUTE} words"),
    )
    print_line(f"versions: {', '.join(versions)}")
    print_line(f"{folder / 'index.html'}")


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
