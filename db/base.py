"""The basis of all tables: the declarative base, column types, names of constraints."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, get_args

from sqlalchemy import (
    JSON,
    BigInteger,
    Dialect,
    Double,
    Enum,
    Integer,
    MetaData,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, mapped_column

from tuner.records.batch import BatchKind
from tuner.records.candidate import Fidelity

DIGEST_LENGTH = 64
JOB_ID_LENGTH = 16
OWNER_LENGTH = 100


class FreeText(TypeDecorator[str]):
    """Text from compilers and candidates, which may hold anything: NUL, which PostgreSQL refuses,
    and lone surrogates, which UTF-8 cannot hold, become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        return (
            value.replace("\0", "\ufffd")
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
        )


RowId = Annotated[
    int,
    # SQLite numbers rows by itself only for a column declared exactly INTEGER.
    mapped_column(BigInteger().with_variant(Integer(), "sqlite"), primary_key=True),
]
Digest = Annotated[str, mapped_column(String(DIGEST_LENGTH))]
Document = dict[str, Any]


def _values(kind: type[StrEnum]) -> list[str]:
    return [member.value for member in kind]


def choice(kind: type[StrEnum], name: str) -> Enum:
    """A short text with a CHECK on the accepted values: portable, unlike a native enum."""
    return Enum(
        kind,
        name=name,
        native_enum=False,
        create_constraint=True,
        length=20,
        values_callable=_values,
    )


def fidelity_choice() -> Enum:
    return Enum(
        *get_args(Fidelity), name="fidelity", native_enum=False, create_constraint=True, length=20
    )


def batch_kind_choice() -> Enum:
    return Enum(
        *get_args(BatchKind), name="kind", native_enum=False, create_constraint=True, length=20
    )


class Base(DeclarativeBase):
    """Base of all models. Constraints get fixed names, which errors tell."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy reads it from the class
        int: BigInteger(),
        float: Double(),
        str: Text(),
        Document: JSON(),
        list[int]: JSON(),
        list[str]: JSON(),
        list[list[int]]: JSON(),
    }
