"""Stored schedules as one file: ``export`` and ``import``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from service.cli.options import AsJson, ServerAddress, read_server
from service.cli.output import print_json, print_line
from tuner.errors import UserError

FileName = Annotated[Path, typer.Argument(metavar="FILE", help="A file of schedules (a zip).")]


def export_schedules(
    file: FileName,
    kernel: Annotated[
        str | None, typer.Option("--kernel", metavar="KERNEL", help="Only those of this kernel.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", metavar="TARGET", help="Only those for this target.")
    ] = None,
    server: ServerAddress = None,
) -> None:
    """Write the stored schedules, with their objects, to FILE."""
    address = read_server(server)
    if address is not None:
        from service.client import Client

        with Client(address) as client:
            client.export(file, kernel, target)
        print_line(f"wrote {file}")
        return
    from db import open_store
    from db.exchange import export_schedules as write

    with open_store() as store:
        count = write(store, file, kernel=kernel, target=target)
    print_line(f"wrote {file} ({count} schedules)")


def import_schedules(
    file: FileName,
    any_toolchain: Annotated[
        bool,
        typer.Option(
            "--any-toolchain", help="Also schedules of toolchains that were never used here."
        ),
    ] = False,
    server: ServerAddress = None,
    as_json: AsJson = False,
) -> None:
    """Take over the schedules in FILE, which `hvxtune export` wrote elsewhere."""
    if not file.is_file():
        raise UserError(f"{file} is no file", accepted="what `hvxtune export FILE` wrote")
    address = read_server(server)
    done = _there(address, file, any_toolchain) if address else _here(file, any_toolchain)
    if as_json:
        print_json(done)
        return
    print_line(
        f"{done['schedules']} schedules: {done['stored']} stored, {done['kept']} no faster than "
        "what was there"
    )


def _there(address: str, file: Path, any_toolchain: bool) -> dict[str, Any]:
    from service.client import Client

    with Client(address) as client:
        return dict(client.import_(file, {"any_toolchain": any_toolchain}))


def _here(file: Path, any_toolchain: bool) -> dict[str, Any]:
    from dataclasses import asdict

    from db import open_store
    from service.importing import take_over

    with open_store() as store, file.open("rb") as content:
        return asdict(take_over(store, content, any_toolchain=any_toolchain))
