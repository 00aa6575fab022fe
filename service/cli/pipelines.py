"""Uploaded pipelines: ``kernel pipelines``."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.options import AsJson, ServerAddress, read_server
from service.cli.output import print_json, print_sentence, print_table, time_text
from tuner.errors import UserError

if TYPE_CHECKING:
    from db import SqlStore


def pipelines(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the uploaded pipelines, newest first."""
    found = _newest(read_server(server), limit)
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


def _newest(address: str | None, limit: int) -> list[dict[str, Any]]:
    if address is not None:
        from service.cli.connecting import connected

        with connected(address) as client:
            return list(islice(client.pipelines(), limit))
    from db import open_store
    from db.pipelines import newest
    from service.json_forms import pipeline_json

    with open_store() as store:
        return [pipeline_json(one) for one in newest(store, limit)]


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


def kept_here(path: Path, store: SqlStore) -> str:
    """Stores the pipeline in ``path`` as the service does, as this user's; returns its name as a
    kernel."""
    from db import pipelines
    from service.auth.tokens import local_user
    from tuner.codegen.halide.uploads import describe_pipeline

    name, data = read_file(path)
    description = describe_pipeline(data).as_dict()
    stored, _ = pipelines.keep(store, data, name, "", description, owner=local_user())
    return stored.kernel
