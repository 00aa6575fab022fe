"""``tool docs``: the documentation as a site, for a browser on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from tuner.errors import ToolchainError

HOST = "127.0.0.1"
DOCS_PORT = 8101


def docs(
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = DOCS_PORT,
) -> None:
    """Show this documentation in a browser of this machine, until Ctrl-C."""
    import os
    import sys
    from importlib.util import find_spec

    from service.cli.site import CONFIG
    from tuner.shipped import shipped

    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        raise ToolchainError(
            "the documentation site needs packages that are not installed (mkdocs-material)",
            next_step="install them with: pip install 'hvxtune[docs]'; or read the pages as they "
            f"are, in {shipped('docs')}",
        )
    mkdocs = (sys.executable, "-m", "mkdocs", "serve", "--no-livereload", "--quiet")
    sys.stdout.write(f"http://{HOST}:{port}/ (Ctrl-C ends it)\n")
    sys.stdout.flush()
    os.execv(sys.executable, [*mkdocs, "-f", str(CONFIG), "-a", f"{HOST}:{port}"])  # noqa: S606
