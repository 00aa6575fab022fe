"""The files of packages: read from a folder, kept in the state directory as one file each.

A kept package is canonical JSON of its files, named by its digest: the same bytes go to a service.
Only files that ``kernel.toml`` names belong to it, and none lies outside of its folder.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import io
import json
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from pathlib import Path

from tuner.errors import NotStoredError, StoreError, UserError
from tuner.identity import canonical_json, digest_of_bytes
from tuner.kernels import PACKAGE_PREFIX
from tuner.packages.manifest import FILE, Manifest, fault_at, read_manifest
from tuner.packages.options import ObjectOptions
from tuner.paths import STATE_DIR_VARIABLE, for_this_user, state_dir, writable

FOLDER = "packages"
NAMED_DIGITS = 12
MOST_BYTES = 16 << 20
"""Of all files together."""
_MOST_VARIANTS = 4096
_MOST_FILES = 8192
_DIGITS = re.compile(r"[0-9a-f]{12}(?:[0-9a-f]{52})?")


@dataclass(frozen=True)
class Package:
    """A kernel.toml that was found good, and the files it names by their paths."""

    manifest: Manifest
    files: Mapping[str, bytes]

    @cached_property
    def data(self) -> bytes:
        """All of it, as it is kept and sent."""
        coded = {name: base64.b64encode(self.files[name]).decode() for name in sorted(self.files)}
        return canonical_json({"files": coded}).encode()

    @cached_property
    def digest(self) -> str:
        """Names it."""
        return digest_of_bytes(self.data)

    @property
    def kernel(self) -> str:
        """Its name as a kernel."""
        return f"{PACKAGE_PREFIX}{self.digest[:NAMED_DIGITS]}"

    def fault(
        self, keys: Sequence[str | int], why: str, accepted: str, next_step: str = ""
    ) -> UserError:
        """The error for the value at ``keys`` of its ``kernel.toml``."""
        return fault_at(keys, self.files[FILE].decode(), FILE, why, accepted, next_step)

    def fault_in(
        self, name: str, line: int, why: str, accepted: str = "", next_step: str = ""
    ) -> UserError:
        """The error for a line of its file ``name``."""
        return UserError(f"{name}:{line}: {why}", accepted=accepted, next_step=next_step)


def package_of(files: Mapping[str, bytes], place: str = FILE) -> Package:
    """The package of ``files``, which stand where ``place`` says, ``kernel.toml`` among them.

    ``UserError`` for a bad ``kernel.toml``, and for files that are missing or not named.
    """
    if FILE not in files:
        raise _no_manifest(place.removesuffix(FILE) or ".")
    manifest = _manifest_of(files[FILE], place)
    named = {FILE, *names_of(manifest, place)}
    for name in sorted(named - files.keys()):
        raise UserError(f"{place} names {name}, which is not in the package")
    for name in sorted(files.keys() - named):
        raise UserError(f"{name} is in the package, but {place} does not name it")
    return Package(manifest, dict(files))


def read_folder(folder: Path) -> Package:
    """The package in ``folder``. Raises as :func:`package_of`, and ``UserError`` for files that
    cannot be read, are too large, or lie outside."""
    place = folder / FILE
    files: dict[str, bytes] = {FILE: _content(folder, FILE, str(place), 0)}
    manifest = _manifest_of(files[FILE], str(place))
    for name in names_of(manifest, str(place)):
        files[name] = _content(folder, name, str(place), sum(map(len, files.values())))
    return package_of(files, str(place))


def _manifest_of(data: bytes, place: str) -> Manifest:
    try:
        return read_manifest(data.decode(), place)
    except UnicodeDecodeError as error:
        raise UserError(f"{place} is not UTF-8: {error}", accepted="TOML in UTF-8") from None


def _no_manifest(folder: str) -> UserError:
    return UserError(
        f"no {FILE} in {folder}",
        accepted="the folder of a package",
        next_step="make one with `hvxtune package new --from c DIR`",
    )


def _content(folder: Path, name: str, place: str, before: int) -> bytes:
    path = folder / name
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            raise UserError(
                f"{place}: {name} leads out of the package, to {path.resolve()}",
                accepted="files in its folder",
                next_step="copy the file into the folder",
            )
        if path.stat().st_size + before > MOST_BYTES:
            raise UserError(f"{place}: {name} is too large", accepted=f"{MOST_BYTES} bytes in all")
        return path.read_bytes()
    except OSError as error:
        if name == FILE and isinstance(error, FileNotFoundError):
            raise _no_manifest(str(folder)) from None
        raise UserError(
            f"{place} names {name}: {error.strerror}", accepted="a file in the package's folder"
        ) from None


def names_of(manifest: Manifest, place: str = FILE) -> list[str]:
    """All files that ``manifest`` names besides itself, variants by knob included."""
    names = [*manifest.files]
    if isinstance(manifest.build, ObjectOptions):
        names += sorted(set(_variants(manifest, manifest.build.file, place)))
    for name in names:
        if not _is_inside(name):
            raise UserError(
                f"{place} names '{name}'",
                accepted="paths in the folder: letters, digits, _ . + -, parts joined by '/'",
            )
    return names


def is_digest(name: str) -> bool:
    """Whether ``name`` is the digest of a package, or its first digits, and not a name."""
    return _DIGITS.fullmatch(name) is not None


def _is_inside(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_][\w.+-]*(/[A-Za-z0-9_][\w.+-]*)*", name, re.ASCII) is not None


def _variants(manifest: Manifest, template: str, place: str) -> Iterator[str]:
    """``template`` with every choice of the knobs it names in braces."""
    used = re.findall(r"\{(\w+)\}", template)
    if unknown := [name for name in used if name not in manifest.knobs]:
        raise UserError(
            f"{place}: build.file = '{template}' names {unknown[0]}",
            accepted=f"knobs: {', '.join(manifest.knobs)}",
        )
    choices: list[Sequence[int | str]] = [manifest.knobs[name].choices for name in used]
    for number, values in enumerate(product(*choices)):
        if number >= _MOST_VARIANTS:
            raise UserError(
                f"{place}: build.file = '{template}' stands for more than {_MOST_VARIANTS} files",
                accepted="fewer choices",
            )
        yield filled(template, dict(zip(used, values, strict=True)))


def filled(template: str, values: Mapping[str, int | str]) -> str:
    """``template`` with ``{NAME}`` replaced by the value of that name, where there is one."""
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), template)


def unpacked(data: bytes) -> Package:
    """The inverse of :attr:`Package.data`, for bytes of others; ``UserError`` for other bytes."""
    try:
        ((key, coded),) = json.loads(data).items()
        if key != "files" or len(coded) > _MOST_FILES:
            raise ValueError
        files = {str(n): base64.b64decode(text, validate=True) for n, text in coded.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, binascii.Error):
        raise UserError(
            "not a package",
            accepted='{"files": {PATH: CONTENT in base64}}',
            next_step="send it with `hvxtune package register DIR --server URL`",
        ) from None
    if len(data) > 2 * MOST_BYTES:
        raise UserError("the package is too large", accepted=f"{MOST_BYTES} bytes in all")
    return package_of(files)


def from_archive(data: bytes) -> Package:
    """The package in a zip or gzipped tar file of its folder, for bytes of others: ``kernel.toml``
    at its top or in its only folder, and of the other files those that it names. ``UserError`` for
    anything else."""
    try:
        files = _zipped(data) if data.startswith(b"PK") else _tarred(data)
    except (ValueError, OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile,
            NotImplementedError, RuntimeError, struct.error):  # fmt: skip
        raise UserError(
            "not an archive that can be read",
            accepted=f"a .zip or .tar.gz of the package's folder, {MOST_BYTES} bytes unpacked",
            next_step="tar czf package.tar.gz DIR",
        ) from None
    places = sorted((n for n in files if n.rpartition("/")[2] == FILE), key=lambda n: n.count("/"))
    if not places:
        raise _no_manifest("the archive")
    folder = places[0].removesuffix(FILE)
    inside = {n.removeprefix(folder): one for n, one in files.items() if n.startswith(folder)}
    named = {FILE, *names_of(_manifest_of(inside[FILE], FILE))}
    return package_of({name: one for name, one in inside.items() if name in named})


def _zipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        found = [one for one in archive.infolist() if not one.is_dir()]
        # What is stated bounds what is unpacked, and other methods unpack more at a time.
        if sum(one.file_size for one in found) > MOST_BYTES or len(found) > _MOST_FILES:
            raise ValueError
        if any(
            one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for one in found
        ):
            raise ValueError
        return {one.filename.removeprefix("./"): archive.read(one) for one in found}


def _tarred(data: bytes) -> dict[str, bytes]:
    unzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # gzip
    plain = unzip.decompress(data, 2 * MOST_BYTES)
    if unzip.unconsumed_tail:
        raise ValueError
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        found = [one for one in archive.getmembers() if one.isreg()]
        # Before reading: a sparse file may state any size.
        if sum(one.size for one in found) > MOST_BYTES or len(found) > _MOST_FILES:
            raise ValueError
        read = ((one.name.removeprefix("./"), archive.extractfile(one)) for one in found)
        return {name: content.read() for name, content in read if content is not None}


def unknown(name: str) -> UserError:
    """The error for a kernel ``package:...`` that is not here."""
    known = ", ".join(dict.fromkeys(f"{PACKAGE_PREFIX}{one.manifest.name}" for one in kept()))
    return NotStoredError(
        f"unknown package '{name[:100]}'",
        accepted=known or "none is kept here yet",
        next_step="name its folder, as ./DIR, or register it with `hvxtune package register DIR`",
    )


def path_of(digest: str) -> Path:
    """Where a package is kept, whether or not it is."""
    return state_dir() / FOLDER / digest[:2] / f"{digest}.json"


def keep(package: Package) -> str:
    """Keeps ``package`` and returns its name as a kernel. Safe for several processes at once."""
    from tuner.machine.whole_files import written_whole

    digest, path = package.digest, path_of(package.digest)
    if any(one != digest for one in _digests(digest[:NAMED_DIGITS])):
        raise UserError(
            f"another package begins with the digits {digest[:NAMED_DIGITS]}",
            next_step="change anything about it, such as a comment",
        )
    writable(f"{FOLDER}/{digest[:2]}")
    try:
        with written_whole(path, opener=for_this_user) as file:
            file.write(package.data)  # again, too: the one kept last is what its name means
    except OSError as error:
        raise StoreError(
            f"cannot write {path}: {error.strerror}",
            next_step=f"free space or permissions there, or set {STATE_DIR_VARIABLE}",
        ) from None
    return package.kernel


def find(name: str) -> str | None:
    """The digest of the package that ``name`` means: digits of one, or the name of the one that
    was kept last under it; ``None`` without one."""
    if is_digest(name):
        found = _digests(name)
        return found[0] if len(found) == 1 else None
    named = [one for one in kept() if one.manifest.name == name]
    return named[0].digest if named else None


@lru_cache(maxsize=256)
def read(digest: str) -> Package:
    """A kept package; ``StoreError`` if it is gone or damaged."""
    path = path_of(digest)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"the package file {path} cannot be read: {error.strerror}",
            next_step=f"register it again; machines that share jobs need a shared "
            f"{STATE_DIR_VARIABLE}",
        ) from None
    if digest_of_bytes(data) != digest:
        raise StoreError(f"the package file {path} is damaged", next_step="register it again")
    return unpacked(data)


def kept() -> list[Package]:
    """All packages that are kept here, the latest first."""
    return [read(digest) for _, digest in kept_since()]


def kept_since() -> list[tuple[int, str]]:
    """When each package was kept here, in nanoseconds since 1970, and its digest; latest first."""
    found = []
    for digest in kept_digests():
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            found.append((path_of(digest).stat().st_mtime_ns, digest))
    return sorted(found, reverse=True)


def remove(digest: str) -> None:
    """Keeps the package with this digest no longer."""
    path = path_of(digest)
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"cannot remove {path}: {error.strerror}", next_step="mend its permissions"
        ) from None


def kept_digests() -> list[str]:
    """The digests of the same, in any order."""
    paths = (state_dir() / FOLDER).glob("[0-9a-f][0-9a-f]/*.json")
    return [path.stem for path in paths if _DIGITS.fullmatch(path.stem)]


def _digests(digits: str) -> list[str]:
    return sorted(path.stem for path in path_of(digits).parent.glob(f"{digits}*.json"))
