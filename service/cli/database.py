"""The database as a whole: ``db upgrade``, ``db backup``, ``db restore``, ``db copy`` and
``db artifacts``; its schedules as one file: ``db export`` and ``db import``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connecting import connected
from service.cli.options import AsJson, ServerAddress
from service.cli.output import print_json, print_line
from service.cli.progress import counted
from service.cli.statuses import Exit
from tuner.errors import UserError

if TYPE_CHECKING:
    from db.files.inventory import Inventory

_MIB = 1 << 20
_MOST_NAMED = 3


def _mib(done: int, total: int) -> str:
    share = done / total if total else 1.0
    return f"{done / _MIB:,.0f} of {total / _MIB:,.0f} MiB ({share:.0%})"


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
    from db.exchange import write_backup

    if place.is_dir():
        place = place / time.strftime("hvxtune-%Y%m%dT%H%M%SZ.zip", time.gmtime())
    with open_store() as store, counted("backup", _mib) as show:
        done = write_backup(store, place, show)
    if as_json:
        print_json(asdict(done))
        return
    print_line(f"wrote {done.file}: {done.rows} rows, {done.files} files, {done.bytes} bytes")
    print_line(f"its manifest has SHA-256 {done.manifest_sha256}")
    _warn(done.missing)


def restore(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A backup that `hvxtune db backup` wrote.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Replace what the database holds, all of it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a backup into an empty database, completely or not at all."""
    from dataclasses import asdict

    from db import open_store
    from db.exchange import restore_backup

    with open_store() as store, counted("restore", _mib) as show:
        done = restore_backup(store, file, force=force, note=show)
    if as_json:
        print_json(asdict(done))
        return
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(done.made_at))
    print_line(f"restored {done.rows} rows and {done.files} files of the backup made {made}")
    print_line(f"its manifest has SHA-256 {done.manifest_sha256}")
    _warn(done.missing)


Url = Annotated[
    str | None,
    typer.Argument(
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE; else HVXTUNE_DATABASE_URL.",
        show_default=False,
    ),
]
ARTIFACTS_HELP = "Where its objects lie, if not where HVXTUNE_ARTIFACTS says."


def upgrade(url: Url = None, as_json: AsJson = False) -> None:
    """Create the tables of an empty database; check that another one fits this hvxtune."""
    from db import open_store

    with open_store(url) as store:
        before, name = store.schema_before, store.place.name
    from db.schema import SCHEMA_VERSION

    if as_json:
        print_json({"database": name, "before": before, "schema": SCHEMA_VERSION})
    elif before is None:
        print_line(f"{name}: it was empty, and has schema {SCHEMA_VERSION} now")
    else:
        print_line(f"{name}: nothing to do, it has schema {SCHEMA_VERSION}")


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The URL of the database to copy.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The URL of an empty database, without tables, too.")
    ],
    from_artifacts: Annotated[
        str | None,
        typer.Option("--from-artifacts", metavar="STORAGE", help=f"Of FROM: {ARTIFACTS_HELP}"),
    ] = None,
    to_artifacts: Annotated[
        str | None,
        typer.Option("--to-artifacts", metavar="STORAGE", help=f"Of TO: {ARTIFACTS_HELP}"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy a database into another, such as SQLite into PostgreSQL, completely or not at all."""
    from dataclasses import asdict

    from db import open_store
    from db.exchange import copy_store
    from db.sql_store import SqlStore

    with (
        SqlStore.open(source, artifacts=from_artifacts, as_it_is=True) as kept,
        open_store(target, artifacts=to_artifacts) as made,
        counted("copy", _mib) as show,
    ):
        done = copy_store(kept, made, show)
        names = kept.place.name, made.place.name
    if as_json:
        print_json(asdict(done))
        return
    print_line(f"copied {names[0]} to {names[1]} and compared all of it")
    for name, table in sorted(done.tables.items()):
        if table.rows:
            print_line(f"  {name:<20} {table.rows:>9} rows  SHA-256 {table.sha256}")
    print_line(f"{done.rows} rows, {done.files} files")
    _warn(done.missing)


def artifacts(
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file and compare its digest.")
    ] = False,
    sweep: Annotated[
        bool,
        typer.Option("--sweep", help="Delete files older than a day that no row refers to."),
    ] = False,
    adopt: Annotated[
        bool,
        typer.Option(
            "--adopt", help="From now on this is the place of the artifacts, whatever is missing."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show where objects lie, how many there are, and which are lost."""
    from dataclasses import asdict

    from db import open_store
    from db.files import inventory

    with open_store() as store:
        if adopt:
            store.artifacts.mark.adopt()
        store.require_artifacts()
        found = inventory.take_inventory(store.artifacts, verify=verify)
        swept = inventory.sweep(store.artifacts, found) if sweep else 0
    if as_json:
        print_json({**asdict(found), "verified": verify, "swept": swept})
    else:
        _print_inventory(found, verified=verify, swept=swept)
    if found.missing or found.damaged:
        raise typer.Exit(Exit.FAILED)


def _print_inventory(found: Inventory, *, verified: bool, swept: int) -> None:
    print_line(f"{found.place}: {found.files} files, {found.bytes / _MIB:,.1f} MiB")
    checked = "all digests compared" if verified else "names and sizes compared"
    print_line(f"{found.referred} artifacts in the database, {checked}")
    for word, keys in (("missing", found.missing), ("damaged", found.damaged)):
        if keys:
            print_line(f"{len(keys)} {word}: {', '.join(keys[:_MOST_NAMED])}")
    if swept:
        print_line(f"{swept} files deleted that no row refers to")
    elif found.unreferred:
        print_line(
            f"{len(found.unreferred)} files ({found.unreferred_bytes / _MIB:,.1f} MiB) that no row "
            "refers to; --sweep deletes them"
        )


def _warn(missing: list[str]) -> None:
    if missing:
        print_line(
            f"warning: {len(missing)} files were lost or damaged before,"
            f" {missing[0]} first; schedules that need them will be refused"
        )


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
    from tuner.problem.target import find_target

    with connected(server) as client:
        client.export(file, kernel, None if target is None else find_target(target).name)
    print_line(f"wrote {file}")


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
    """Take over the schedules in FILE, which `hvxtune db export` wrote elsewhere."""
    if not file.is_file():
        raise UserError(f"{file}: no such file", accepted="what `hvxtune db export FILE` wrote")
    with connected(server) as client:
        done = client.import_(file, {"any_toolchain": any_toolchain})
    if as_json:
        print_json(done)
        return
    print_line(
        f"{done['schedules']} schedules: {done['stored']} stored, {done['kept']} no faster than "
        "those stored before"
    )
    if done["left_out"]:
        print_line(f"{done['left_out']} left out, of code that is not what is installed here:")
        for reason in done["reasons"]:
            print_line(f"  {reason}")
