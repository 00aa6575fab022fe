"""Uploaded pipelines: ``pipelines``."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from service.cli.options import AsJson, ServerAddress, read_server
from service.cli.output import print_json, print_line, print_table, time_text


def pipelines(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 50,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """List the uploaded pipelines, newest first."""
    found = _newest(read_server(server), limit)
    if as_json:
        print_json({"pipelines": found})
    elif not found:
        print_line("no upload yet; make one with `hvxtune tune --pipeline FILE`")
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
        from service.client import Client

        with Client(address) as client:
            return list(islice(client.pipelines(), limit))
    from db import open_store
    from db.pipelines import newest
    from service.json_forms import pipeline_json

    with open_store() as store:
        return [pipeline_json(one) for one in newest(store, limit)]
