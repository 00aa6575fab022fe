"""Tables of artifacts' bytes: the bytes themselves, where they lie in the database, and the mark of
the place where they lie."""

from __future__ import annotations

from sqlalchemy import CheckConstraint, String
from sqlalchemy.orm import Mapped, mapped_column

from db.base import Base, Digest, FreeText

KEY_LENGTH = 200


class ArtifactBytesRow(Base):
    """A file of :class:`db.files.rows.DatabaseRows`."""

    __tablename__ = "artifact_bytes"

    key: Mapped[str] = mapped_column(String(KEY_LENGTH), primary_key=True)
    content: Mapped[bytes]
    written_at: Mapped[float]


class ArtifactMarkRow(Base):
    """The one mark of the place where the artifacts lie (:mod:`db.files.mark`)."""

    __tablename__ = "artifact_marks"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    key: Mapped[str] = mapped_column(String(KEY_LENGTH))
    digest: Mapped[Digest]
    place: Mapped[str] = mapped_column(FreeText())
    written_by: Mapped[str] = mapped_column(FreeText())
    written_at: Mapped[float]

    __table_args__ = (CheckConstraint("id = 1", name="one_mark"),)
