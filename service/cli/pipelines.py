"""Uploaded pipelines: ``kernel pipelines``."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connecting import connected
from service.cli.options import AsJson, ServerAddress
from service.cli.output import print_json, print_sentence, print_table, time_text
from tuner.errors import UserError


def pipelines(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the uploaded pipelines, newest first."""
    with connected(server) as client:
        found = list(islice(client.pipelines(), limit))
    if as_json:
        print_json({"pipelines": found})
    elif not found:
        print_sentence("no upload yet; make one with `hvxtune tune --pipeline FILE`")
    else:
        print_table(
            ["name", "owner", "visibility", "uploaded", "bytes", "kernel"],
            [
                [
                    one["name"],
                    one["owner"],
                    one["visibility"],
                    time_text(one["created_at"]),
                    f"{one['upload_bytes']:,}",
                    one["kernel"],
                ]
                for one in found
            ],
            numeric=["bytes"],
        )


PipelineFile = Annotated[
    Path | None,
    typer.Option(
        "--pipeline",
        metavar="FILE",
        help="Tune what halide.serialize_pipeline wrote to FILE instead of a kernel.",
        show_default=False,
    ),
]
_MOST_BYTES = 16 << 20


def require_one(kernel: str | None, pipeline: Path | None) -> None:
    """``UserError`` unless there is either a kernel's name or a file."""
    if (kernel is None) == (pipeline is None):
        from tuner.kernels import kernel_names

        missing = "KERNEL is missing, and --pipeline too"
        raise UserError(
            missing if kernel is None else f"KERNEL '{kernel}' and --pipeline {pipeline}: which?",
            accepted=f"one of {', '.join(kernel_names())}, or --pipeline FILE",
        )


def read_file(path: Path) -> tuple[str, bytes]:
    """The name for a pipeline in a file, and its bytes; ``UserError`` if it cannot be read."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"--pipeline {path}: {error.strerror}",
            accepted="a file that halide.serialize_pipeline wrote",
        ) from None
    if len(data) > _MOST_BYTES:
        raise UserError(f"--pipeline {path} is too large", accepted=f"{_MOST_BYTES} bytes at most")
    plain = re.sub(r"\W", "_", path.stem.lower(), flags=re.ASCII)[:60]
    return plain if re.match("[a-z]", plain) else f"p_{plain}", data
