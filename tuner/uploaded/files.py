"""The bytes of uploaded pipelines: a file each in the state directory, named by their digest."""

from __future__ import annotations

import re
from pathlib import Path

from tuner.errors import NotStoredError, StoreError, UserError
from tuner.identity import digest_of_bytes
from tuner.paths import STATE_DIR_VARIABLE, for_this_user, state_dir, writable

FOLDER = "pipelines"
NAMED_DIGITS = 12
"""Digits of the digest that name a pipeline. Those of two uploads are never the same here."""
_DIGITS = re.compile(rf"[0-9a-f]{{{NAMED_DIGITS}}}(?:[0-9a-f]{{{64 - NAMED_DIGITS}}})?")


def is_digest(text: str) -> bool:
    """Whether ``text`` reads like the digest of a pipeline, or what names one of it."""
    return _DIGITS.fullmatch(text) is not None


def unknown(name: str) -> UserError:
    """The error for a kernel ``pipeline:...`` that is not here, or not for the caller to know."""
    return NotStoredError(
        f"unknown pipeline '{name[:100]}'",
        accepted="pipeline: and the name of an upload of yours, OWNER/NAME, or the first"
        f" {NAMED_DIGITS} digits of the digest of one that is kept here",
        next_step="upload it with POST /v1/pipelines, or use hvxtune tune --pipeline FILE",
    )


def path_of(digest: str) -> Path:
    """Where the bytes with this digest are kept, whether or not they are."""
    return state_dir() / FOLDER / digest[:2] / f"{digest}.halide"


def require_name(digest: str) -> None:
    """``UserError`` if another pipeline is kept whose digest begins alike: one of them was made to
    pass for the other."""
    others = [kept for kept in _kept(digest[:NAMED_DIGITS]) if kept != digest]
    if others:
        raise UserError(
            f"the pipeline {digest[:NAMED_DIGITS]} is kept already, with other bytes",
            accepted="a pipeline whose digest begins with other digits",
            next_step="change anything about it, such as the name of a stage",
        )


def keep(data: bytes) -> str:
    """Keeps ``data`` and returns its digest. Safe for several processes at once."""
    from tuner.machine.whole_files import written_whole  # compile servers only read

    digest = digest_of_bytes(data)
    require_name(digest)
    path = path_of(digest)
    if not path.exists() or path.read_bytes() != data:
        writable(f"{FOLDER}/{digest[:2]}")
        try:
            with written_whole(path, opener=for_this_user) as file:
                file.write(data)
        except OSError as error:
            raise StoreError(
                f"cannot write {path}: {error.strerror}",
                next_step=f"free space or permissions there, or set {STATE_DIR_VARIABLE}",
            ) from None
    return digest


def find(digits: str) -> str | None:
    """The digest of the pipeline kept under these digits, 12 or all; ``None`` without one."""
    if not _DIGITS.fullmatch(digits):
        return None
    kept = [digest for digest in _kept(digits[:NAMED_DIGITS]) if digest.startswith(digits)]
    return kept[0] if len(kept) == 1 else None


def read(digest: str) -> bytes:
    """The bytes; ``StoreError`` if they are gone or damaged."""
    path = path_of(digest)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(
            f"the pipeline file {path} cannot be read: {error.strerror}",
            next_step="upload it again; machines that share a database need a shared "
            f"{STATE_DIR_VARIABLE}",
        ) from None
    if digest_of_bytes(data) != digest:
        raise StoreError(f"the pipeline file {path} is damaged", next_step="upload it again")
    return data


def kept() -> list[str]:
    """The digests of all that are kept here."""
    folders = (state_dir() / FOLDER).glob("[0-9a-f][0-9a-f]")
    found = (path.stem for folder in folders for path in folder.glob("*.halide"))
    return sorted(digest for digest in found if _DIGITS.fullmatch(digest))


def _kept(digits: str) -> list[str]:
    folder = path_of(digits).parent
    return sorted(path.stem for path in folder.glob(f"{digits}*.halide"))
