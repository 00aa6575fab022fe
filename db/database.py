"""A database, and the transactions in which all objects of this room read and write it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Self

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from db.audience import session_info
from db.engine import WRITING, find_url, make_engine, place_of, reading_options
from db.failure import store_errors
from db.place import Place
from db.private import create_database_file, tightened
from db.records import reading
from db.schema import SCHEMA_VERSION, ensure_schema, require_schema
from tuner.errors import StoreError

_log = logging.getLogger("hvxtune.store")


class Database:
    """Makes sessions. Jobs, trials, schedules and artifacts are objects that take one.

    Safe from several threads and with other processes on the same database, but not across a
    ``fork``: a child opens its own. Reads see the last commit and never wait for a writer.
    """

    def __init__(self, engine: Engine, place: Place) -> None:
        self.place = place
        self._engine = engine
        self._reading_engine = engine.execution_options(**reading_options(engine))
        self._writing_engine = engine.execution_options(**WRITING)
        self._one_writer = threading.Lock()
        self._of_thread = _OfThread()
        self._viewer: str | None = None

    @property
    def viewer(self) -> str | None:
        """The tenant whose private rows are seen beside the shared ones; ``None`` sees all."""
        return self._viewer

    def seen_by(self, tenant: str | None) -> Self:
        """The same database as ``tenant`` sees it, without the private rows of others (``None``
        sees all). It shares this one's connections; close this one."""
        view = copy(self)
        view._viewer = tenant
        return view

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction for queries; errors are ``StoreError``."""
        joined = self._of_thread.session
        if joined is not None:
            with store_errors(self.place), reading("a row"):
                yield joined
            return
        info = session_info(self._viewer)
        with (
            store_errors(self.place),
            reading("a row"),
            Session(self._reading_engine, expire_on_commit=False, info=info) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A transaction that writes: committed as a whole at its end, or not at all."""
        joined = self._of_thread.session
        if joined is not None:
            with store_errors(self.place), joined.begin_nested():
                yield joined
            return
        # Threads queue here; processes queue at the database, which polls.
        info = session_info(self._viewer)
        with (
            self._one_writer,
            store_errors(self.place),
            Session(self._writing_engine, info=info) as session,
            session.begin(),
        ):
            yield session

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Makes one transaction of all that this thread reads and writes within: all of it is
        committed at the end, or nothing.

        It keeps other writers waiting, so nothing slow belongs inside. May be nested.
        """
        if self._of_thread.session is not None:
            with self.writing() as session:
                yield session
            return
        with self.writing() as session:
            self._of_thread.session = session
            try:
                yield session
            finally:
                self._of_thread.session = None

    def dispose(self) -> None:
        """Ends all connections."""
        self._engine.dispose()


class Part:
    """One of the things that a database keeps: an object that takes it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def on(self, database: Database) -> Self:
        """The same on another view of the database."""
        view = copy(self)
        view._database = database
        return view


class _OfThread(threading.local):
    """The transaction that a thread has made one of several, if it has."""

    session: Session | None = None


def connected(
    url: str | None, *, busy_timeout_s: float, as_it_is: bool
) -> tuple[Engine, Place, str | None]:
    """An engine for the database at ``url`` (:func:`db.open_store`), its place, and the schema that
    it had; ``None`` if it was empty.

    One that is opened ``as_it_is`` has to exist, at the schema of this code: it is neither made
    nor upgraded. ``StoreError`` if it cannot be used.
    """
    found = find_url(url)
    place = place_of(found)
    for note in tightened(place.path):
        _log.warning("%s", note)
    if place.path is not None:
        if as_it_is and not place.path.exists():
            raise StoreError(
                f"{place.path}: no such file", accepted="the URL of a database of hvxtune"
            )
        create_database_file(place.path)
    with store_errors(place):
        engine = make_engine(found, busy_timeout_s)
        try:
            if not as_it_is:
                return engine, place, ensure_schema(engine, place)
            require_schema(engine, place)
        except BaseException:
            engine.dispose()
            raise
    return engine, place, SCHEMA_VERSION
