"""Uploaded pipelines: a row for each name that a tenant gave one, its bytes on disk, named by their
digest.

A name belongs to who gave it. ``pipeline:blur`` is the caller's own ``blur``, the one uploaded
last; ``pipeline:ann/blur`` is ann's; a digest always names the same bytes. A name never leads to
another tenant's upload by itself, even if theirs is newer.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NewType

from sqlalchemy import case, select, tuple_
from sqlalchemy.orm import Session

from db.audience import EVERYBODYS, Viewer, audience_of
from db.failure import file_error
from db.files import durable as durable_files
from db.files.inventory import UPLOADS
from db.service_models import PipelineRow
from db.sql_store import SqlStore
from tuner.errors import NotStoredError, UserError
from tuner.identity import digest_of_bytes
from tuner.kernels import PACKAGE_PREFIX, PIPELINE_PREFIX, Kernel, find_kernel
from tuner.uploaded import files, kernel_name

_MOST_NAMED = 5
"""Uploads of others that an error names."""


@dataclass(frozen=True)
class StoredPipeline:
    """An upload. ``description`` is what the contained process found in its bytes; ``user`` sent
    it, ``owner`` owns the name, and alone sees it if it is ``private``."""

    digest: str
    name: str
    user: str
    upload_bytes: int
    description: Mapping[str, Any] = field(hash=False)
    created_at: float
    owner: str = ""
    private: bool = False
    number: int = 0

    @property
    def address(self) -> str:
        """The name for all who see it."""
        return f"{PIPELINE_PREFIX}{self.owner}/{self.name}" if self.owner else self.kernel

    @property
    def kernel(self) -> str:
        """Its name as a kernel, by its digest."""
        return kernel_name(self.digest)

    def label(self, viewer: str) -> str:
        """Its name for ``viewer``."""
        return self.name if self.owner in ("", viewer) else f"{self.owner}/{self.name}"


KernelName = NewType("KernelName", str)
"""A kernel's name that :func:`named` found for somebody; it never changes its meaning."""


@dataclass(frozen=True)
class Named:
    """A kernel that somebody asked for: its name, the name that people use, if it is another, and
    whether only one tenant may know of it."""

    kernel: KernelName
    label: str = ""
    private: bool = False


def keep(
    store: SqlStore,
    data: bytes,
    name: str,
    user: str,
    description: Mapping[str, Any],
    *,
    owner: str | None = None,
    private: bool = False,
) -> tuple[StoredPipeline, bool]:
    """Stores an upload of ``owner`` (by default the user), its bytes before its row.

    Other bytes under a name the owner has given before are a new version: the name means them
    from now on, as it means older ones that are uploaded again. Returns what is stored, and
    whether these bytes are new under this name.
    """
    _require_no_digest(name)
    whose = user if owner is None else owner
    digest = digest_of_bytes(data)
    files.require_name(digest)
    path = files.path_of(digest)
    try:
        if not path.exists() or digest_of_bytes(path.read_bytes()) != digest:
            durable_files.replace(path.parent.parent, path, data)
    except OSError as error:
        raise file_error(error, path) from error
    store.files.storage.write(shared_as(digest), data)
    key = {"tenant": whose, "name": name, "digest": digest}
    audience = audience_of(whose, private=private)
    with store.writing() as session:
        row = session.scalar(select(PipelineRow).filter_by(**key))
        if row is not None:
            row.created_at, row.audience = time.time(), audience
            return _record(row), False
        row = PipelineRow(
            **key,
            kernel=kernel_name(digest),
            audience=audience,
            submitted_by=user,
            upload_bytes=len(data),
            description=dict(description),
            created_at=time.time(),
        )
        session.add(row)
        session.flush()
        return _record(row), True


def bring(store: SqlStore, kernel: str) -> None:
    """Keeps the bytes of the upload called ``kernel`` here, if they are not: from among the
    artifacts, which all machines share. Does nothing for other kernels, and for uploads without a
    row, which no other machine has. ``StoreError`` if they are lost there."""
    if not kernel.startswith(PIPELINE_PREFIX):
        return
    wanted = select(PipelineRow.digest).where(PipelineRow.kernel == kernel).limit(1)
    with store.reading() as session:
        digest = session.scalar(wanted.execution_options(**EVERYBODYS))
    if digest is None:
        return
    if not files.path_of(digest).exists():
        files.keep(store.files.storage.read(shared_as(digest), digest))


def shared_as(digest: str) -> str:
    """The key of an upload among the artifacts."""
    return f"{UPLOADS}{digest[:2]}/{digest}.halide"


def _require_no_digest(name: str) -> None:
    if files.is_digest(name):
        raise UserError(
            f"the name '{name}' reads like a digest",
            accepted="a name that is not 12 or 64 hexadecimal digits",
        )


def find(store: SqlStore, digest: str, viewer: str = "") -> StoredPipeline | None:
    """The upload with this digest: the viewer's own, if there are several."""
    with store.reading() as session:
        found = _with_digest(session, digest, viewer)
        return None if found is None else _record(found)


def newest(
    store: SqlStore, limit: int, before: tuple[float, int] | None = None
) -> list[StoredPipeline]:
    """At most ``limit`` uploads, newest first; those after the one with the ``created_at`` and
    number ``before``."""
    place = tuple_(PipelineRow.created_at, PipelineRow.id)
    wanted = select(PipelineRow).order_by(PipelineRow.created_at.desc(), PipelineRow.id.desc())
    if before is not None:
        wanted = wanted.where(place < before)
    with store.reading() as session:
        return [_record(row) for row in session.scalars(wanted.limit(limit))]


def named(store: SqlStore, asked: str, viewer: Viewer) -> Named:
    """The kernel that ``viewer`` means by ``asked``: ``pipeline:`` and a name, another tenant and a
    name, or a digest; ``package:`` and a name or digest. The one place where names of kernels are
    resolved for somebody, whatever ``store`` itself shows: what others keep private is answered
    like a name that nobody gave. ``UserError`` for a name that only others gave."""
    if asked.startswith(PACKAGE_PREFIX):
        from tuner.packages.kernel import find_package

        package = find_package(asked)
        return Named(KernelName(package.name), package.package.manifest.name)
    given = asked.removeprefix(PIPELINE_PREFIX)
    if given == asked:
        return Named(KernelName(asked))
    if not (given.isascii() and given.isprintable()):  # PostgreSQL's text has no NUL
        raise files.unknown(asked)
    seen = store.seen_by(None if viewer.sees_all else viewer.tenant)
    with seen.reading() as session:
        if files.is_digest(given):
            return _by_digest(session, asked, given, viewer.tenant)
        tenant, slash, name = given.rpartition("/")
        for whose in (tenant,) if slash else (viewer.tenant, ""):
            row = session.scalar(_versions(name).where(PipelineRow.tenant == whose).limit(1))
            if row is not None:
                return _as_named(row, viewer)
        others = [_record(row) for row in session.scalars(_versions(name).limit(_MOST_NAMED))]
    if others:
        raise NotStoredError(
            f"'{asked[:100]}': {f'{tenant} has' if slash else 'you have'} uploaded nothing called"
            f" '{name[:80]}'",
            accepted=", ".join(dict.fromkeys(one.address for one in others)),
            next_step="name the owner, or upload one under this name",
        )
    raise files.unknown(asked)


def kernel_for(store: SqlStore, asked: str, viewer: Viewer) -> Kernel:
    """The kernel that ``viewer`` means by ``asked``: :func:`named`."""
    return find_kernel(named(store, asked, viewer).kernel)


def _versions(name: str) -> Any:
    newest_first = (PipelineRow.created_at.desc(), PipelineRow.id.desc())
    return select(PipelineRow).where(PipelineRow.name == name).order_by(*newest_first)


def _by_digest(session: Session, asked: str, given: str, tenant: str) -> Named:
    digest = files.find(given)
    row = None if digest is None else _with_digest(session, digest, tenant)
    if row is not None:
        return _as_named(row, Viewer(tenant))
    uploaded = select(PipelineRow.id).where(PipelineRow.digest == digest).limit(1)
    if digest is None or session.scalar(uploaded.execution_options(**EVERYBODYS)) is not None:
        raise files.unknown(asked)
    return Named(KernelName(kernel_name(digest)))  # kept by a program on this machine, unnamed


def _as_named(row: PipelineRow, viewer: Viewer) -> Named:
    found = _record(row)
    return Named(KernelName(found.kernel), found.label(viewer.tenant), found.private)


def _with_digest(session: Session, digest: str, viewer: str) -> PipelineRow | None:
    """Shared ones first: what is private under one name may be shared under another."""
    rank = case((PipelineRow.tenant == viewer, 0), else_=1)
    wanted = select(PipelineRow).where(PipelineRow.digest == digest)
    order = (rank, PipelineRow.audience, PipelineRow.created_at.desc())
    return session.scalars(wanted.order_by(*order).limit(1)).first()


def _record(row: PipelineRow) -> StoredPipeline:
    return StoredPipeline(
        digest=row.digest,
        name=row.name,
        user=row.submitted_by,
        upload_bytes=row.upload_bytes,
        description=row.description,
        created_at=row.created_at,
        owner=row.tenant,
        private=bool(row.audience),
        number=row.id,
    )
