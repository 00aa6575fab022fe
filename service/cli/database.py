"""The database as a whole: ``db backup`` and ``db restore``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import AsJson
from service.cli.output import print_json, print_line

app = typer.Typer(help="Look after the database: backups.", no_args_is_help=True)


@app.command()
def backup(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", help="A new file, or a folder for a file named by the time."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Write the database with all objects and uploads to one file, while services go on."""
    from dataclasses import asdict

    from db import open_store
    from db.backup import write_backup
    from service.cli.long_work import shown

    if place.is_dir():
        place = place / time.strftime("hvxtune-%Y%m%dT%H%M%SZ.tar", time.gmtime())
    with open_store() as store, shown("backup") as show:
        done = write_backup(store, place, show)
    if as_json:
        print_json(asdict(done))
        return
    print_line(f"wrote {done.file}: {done.rows} rows, {done.files} files, {done.bytes} bytes")
    print_line(f"its manifest has SHA-256 {done.manifest_sha256}")
    _warn(done.missing)


@app.command()
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `hvxtune db backup` wrote.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace what the database holds, all of it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make an empty database what it was when the backup was made; all of it, or nothing."""
    from dataclasses import asdict

    from db import open_store
    from db.backup import restore_backup
    from service.cli.long_work import shown

    with open_store() as store, shown("restore") as show:
        done = restore_backup(store, file, force=force, note=show)
    if as_json:
        print_json(asdict(done))
        return
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(done.made_at))
    print_line(f"restored {done.rows} rows and {done.files} files of the backup made {made}")
    print_line(f"its manifest has SHA-256 {done.manifest_sha256}")
    _warn(done.missing)


def _warn(missing: list[str]) -> None:
    if missing:
        print_line(
            f"warning: {len(missing)} files were lost or damaged before the backup was made,"
            f" {missing[0]} first; schedules that need them will be refused"
        )
