"""A bundle on disk: a folder, or one reproducible archive."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from tuner.errors import UserError
from tuner.machine.whole_files import write_whole
from tuner.network.shipping.bundle import MANIFEST, Bundle

SUFFIX = ".tar.gz"


def require_place(place: Path) -> None:
    """``UserError`` if a bundle cannot be written to ``place``: to be asked before the work."""
    if place.name.endswith(SUFFIX):
        if place.is_dir() or not place.absolute().parent.is_dir():
            raise UserError(f"cannot write {place}", accepted=f"NAME{SUFFIX} in an existing folder")
        return
    if place.exists() and not place.is_dir():
        raise UserError(f"{place} is a file", accepted=f"a folder, or NAME{SUFFIX}")
    others = sorted(_files_in(place) - _bundled_in(place))
    if others:
        raise UserError(
            f"{place} has other files: {others[0]}",
            accepted="a new folder, an empty one, or one with nothing but a bundle",
        )


def write(bundle: Bundle, place: Path) -> None:
    """Writes ``bundle`` to the archive ``place`` if its name ends in ``.tar.gz``, else into the
    folder ``place``, where it replaces an earlier bundle. ``UserError`` if it cannot."""
    require_place(place)
    try:
        if place.name.endswith(SUFFIX):
            write_whole(place, packed(bundle))
            return
        for path in _files_in(place) - set(bundle.files):
            (place / path).unlink()
        for path, content in bundle.files.items():
            file = place / path
            file.parent.mkdir(parents=True, exist_ok=True)
            # Unchanged files keep their times, so that nothing is built again.
            if not file.exists() or file.read_bytes() != content:
                write_whole(file, content)
    except OSError as error:
        raise UserError(
            f"cannot write {place}: {error.strerror}", accepted="a place that you can write to"
        ) from None


def packed(bundle: Bundle) -> bytes:
    """The archive: all files in a folder of the bundle's name, in order, without times and
    owners."""
    made = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=made, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for path, content in sorted(bundle.files.items()):
            entry = tarfile.TarInfo(f"{bundle.name}/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def _files_in(folder: Path) -> set[str]:
    found = folder.rglob("*") if folder.is_dir() else ()
    return {str(path.relative_to(folder)) for path in found if not path.is_dir()}


def _bundled_in(folder: Path) -> set[str]:
    """The files that the manifest in ``folder`` names; none without one."""
    try:
        files = json.loads((folder / MANIFEST).read_text())["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {MANIFEST, *files} if isinstance(files, Mapping) else set()
