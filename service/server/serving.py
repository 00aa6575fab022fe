"""``hvxtune serve``: the web application with its conductors, from start to orderly end."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
from fastapi import FastAPI

from db import open_store
from db.files.storages import ARTIFACTS_VARIABLE
from db.place import URL_VARIABLE
from db.sql_store import SqlStore
from service.admission.connections import BACKLOG, Connections, within_descriptors
from service.admission.lookups import ProcessLookers
from service.app import create_app
from service.auth.gate import Gate
from service.auth.local_token import check_exposure, ensure_token, local_token_notes
from service.logs import LogFormat, log_to_stderr
from service.server.supervision import Conductors
from service.settings import Settings
from service.settled_memory import settle_memory
from tuner.errors import StoreError, UserError

FINISH_REQUESTS_S = 10
"""How long answers under way may take once the service is told to end."""

_log = logging.getLogger("hvxtune.service")

Announce = Callable[[Mapping[str, Any]], None]
"""Receives ``url``, ``database``, ``artifacts``, ``conductors`` and ``notes`` (lines to print) once
clients can connect; at the first start also the ``token`` that was made and its ``token_file``."""


def serve(
    settings: Settings,
    announce: Announce,
    *,
    conductor: Sequence[str] = (),
    access_log: bool = False,
    log_format: LogFormat = LogFormat.TEXT,
) -> None:
    """Serves until SIGTERM or SIGINT; from the main thread. ``conductor`` is the
    command that starts a conductor, if ``settings`` ask for any.

    At the first signal no more is accepted, answers under way are finished, and the conductors
    finish the candidates in flight and release their jobs; the second ends everything at once,
    which loses no committed trial. Raises ``UserError`` for an address that cannot be
    bound and for unusable TLS files, ``StoreError`` for the database, all before it listens.
    """
    log_to_stderr(log_format)
    _require_tls(settings)
    with _listening(settings) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        store = open_store(settings.database_url, artifacts=settings.artifacts)
        try:
            _serve(settings, store, listener, announce, conductor, access_log=access_log)
        finally:
            store.close()


def _serve(
    settings: Settings,
    store: SqlStore,
    listener: socket.socket,
    announce: Announce,
    conductor: Sequence[str],
    *,
    access_log: bool,
) -> None:
    about = _access(store, settings)
    _mark_artifacts(store)
    app = create_app(store, Gate(store), settings, _lookers(settings))
    conductors = _conductors(settings, conductor)
    app.state.conductors_alive = lambda: conductors.alive

    def when_listening() -> None:
        announce(
            {
                "url": settings.url,
                "database": store.place.name,
                "artifacts": store.files.storage.place,
                "conductors": settings.conductors,
                **about,
            }
        )
        for prepare in app.state.preparations:
            threading.Thread(target=prepare).start()

    server = _Server(
        configured(app, settings, access_log=access_log),
        conductors=conductors,
        stopping=app.state.stopping,
        when_listening=when_listening,
    )
    app.state.answers.reads.warm()
    settle_memory()
    try:
        server.run([listener])
    finally:
        app.state.lookups.close()


def configured(app: FastAPI, settings: Settings, *, access_log: bool = False) -> uvicorn.Config:
    """The server's configuration for ``app``."""
    limits = within_descriptors(settings.connections)
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=cast("type[asyncio.Protocol]", Connections(limits).protocol),
        lifespan="off",
        log_config=None,
        access_log=access_log,
        proxy_headers=False,  # the application has the middleware
        server_header=False,
        backlog=BACKLOG,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        timeout_keep_alive=math.ceil(limits.keep_alive_s),
        timeout_graceful_shutdown=FINISH_REQUESTS_S,
    )


def _lookers(settings: Settings) -> ProcessLookers | None:
    if not settings.lookup_processes:
        return None
    return ProcessLookers(settings.database_url, settings.artifacts, settings.lookup_processes)


def _mark_artifacts(store: SqlStore) -> None:
    """So that conductors elsewhere find out whether they reach what is served from here. A service
    that does not find its artifacts itself says so, and in `/readyz`, too."""
    try:
        store.mark_artifacts()
    except StoreError as error:
        _log.error("not ready: %s", error)


def _access(store: SqlStore, settings: Settings) -> dict[str, Any]:
    """Makes sure that a token exists; returns what to announce about access. ``UserError`` if the
    address must not be served yet."""
    notes = check_exposure(store, settings)
    first = ensure_token(store)
    if first is None:
        return {"notes": [*notes, *local_token_notes(store)]}
    if first.note:
        return {"notes": [*notes, f"warning: {first.note}"], "token": first.text}
    return {"notes": notes, "token": first.text, "token_file": str(first.file)}


def _conductors(settings: Settings, conductor: Sequence[str]) -> Conductors:
    arguments = ["--until-eof", "--slots", str(settings.slots)]
    # In the environment: a URL may hold a password, and everybody can read command lines.
    given = {URL_VARIABLE: settings.database_url, ARTIFACTS_VARIABLE: settings.artifacts}
    environment = {name: value for name, value in given.items() if value}
    return Conductors(settings.conductors, [*conductor, *arguments], environment)


class _Server(uvicorn.Server):
    """uvicorn's, with the conductors started and ended alongside."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        conductors: Conductors,
        stopping: threading.Event,
        when_listening: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._conductors = conductors
        self._stopping = stopping
        self._when_listening = when_listening

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        # Held from before the first conductor until the last has ended, not only while serving.
        before = {n: signal.signal(n, self.handle_exit) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._conductors.start()
            super().run(sockets)
            self._conductors.drain()
            self._conductors.wait()
        finally:
            self._conductors.kill()
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._when_listening()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends. Hidden from uvicorn, which would raise it again
        at the end: an orderly end has status 0."""
        if not self.should_exit:
            self.should_exit = True
            self._stopping.set()
            # In a thread: the handler may have interrupted the holder of the lock it needs.
            threading.Thread(target=self._conductors.drain).start()
            _log.info(
                "ending: finishing answers and candidates in flight; signal again to stop now"
            )
        else:
            self.force_exit = True
            threading.Thread(target=self._conductors.kill).start()


def _require_tls(settings: Settings) -> None:
    """Both files, readable, and of one pair."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        given, missing = (
            ("--tls-key", "--tls-certificate")
            if certificate is None
            else ("--tls-certificate", "--tls-key")
        )
        raise UserError(f"{given} without {missing}", accepted="both or neither")
    for option, path in (("--tls-certificate", certificate), ("--tls-key", key)):
        if not Path(path).is_file():
            raise UserError(f"{option} '{path}': no such file", accepted="a PEM file")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError) as error:
        raise UserError(
            f"--tls-certificate '{certificate}' and --tls-key '{key}' cannot be used: {error}",
            accepted="a PEM certificate with its chain and its unencrypted PEM key",
            next_step="check them with: openssl x509 -noout -text -in CERTIFICATE",
        ) from None


def _listening(settings: Settings) -> socket.socket:
    """A socket bound to the address; clients wait in its queue until they are served."""
    host, port = settings.host, settings.port
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UserError(
            f"--host '{host}' is not an address: {getattr(error, 'strerror', None) or error}",
            accepted="an address or name of this machine, such as 127.0.0.1",
        ) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_bind(host, port, error) from None
    return listener


def _cannot_bind(host: str, port: int, error: OSError) -> UserError:
    if error.errno == errno.EADDRINUSE:
        return UserError(
            f"--port {port} on {host} is in use by another process",
            accepted="a free port, or 0 for any",
            next_step=f"end that process (ss -ltnp 'sport = :{port}' names it) or choose --port",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return UserError(
            f"--port {port} is reserved for root", accepted="1024 to 65535, or 0 for any"
        )
    return UserError(
        f"--host '{host}' is not an address of this machine: {error.strerror}",
        accepted="127.0.0.1, or an address that `ip addr` shows",
    )
