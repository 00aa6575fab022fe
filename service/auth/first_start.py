"""What a service sees to before it listens: that there is a token, and who could reach it."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from service.auth.audit import record
from service.auth.caller import Quotas, Scope
from service.auth.issue import prepare
from service.auth.local_token import keep_local_token, local_token, local_token_file, local_user
from service.auth.token_text import parse
from tuner.errors import HvxtuneError, StoreError, UserError

if TYPE_CHECKING:
    from db.sql_store import SqlStore
    from service.settings import Settings


@dataclass(frozen=True)
class FirstToken:
    """The token that a service made for itself. ``text`` is to be printed, this once; ``note``
    says why it could not be written to ``file``, if so."""

    text: str
    file: Path
    note: str = ""


def ensure_token(store: SqlStore) -> FirstToken | None:
    """Makes the first token, with scope ``admin``, if there never was any, and leaves it where
    commands of the same user on this machine find it. ``None`` if there were tokens."""
    from db.access.tokens import add_first_token, all_tokens

    if all_tokens(store):
        return None
    text, token = prepare(name=local_user(), scopes=[Scope.ADMIN], quotas=Quotas(), expires_at=None)
    with store.transaction():
        if not add_first_token(store, token):
            return None  # another service on this database was faster, and wrote its token down
        about = {"name": token.name, "scopes": token.scopes}
        record(store, None, "token.create", token.id, about)
    try:
        return FirstToken(text.text, keep_local_token(text.text))
    except StoreError as error:
        return FirstToken(text.text, local_token_file(), str(error))


def check_exposure(store: SqlStore, settings: Settings) -> list[str]:
    """Refuses to listen beyond this machine while nobody has a token (``UserError``); gives lines
    that whoever starts the service should read. To be called before :func:`ensure_token`."""
    if is_loopback(settings.host):
        return []
    from db.access.tokens import all_tokens

    now = time.time()
    if not any(token.is_valid(now) for token in all_tokens(store)):
        raise UserError(
            f"--host {settings.host} can be reached from other machines, and there is no valid"
            " token",
            accepted="127.0.0.1, or any address once a token was made on purpose",
            next_step="run `hvxtune token create --name NAME --scope admin` first, and use"
            " --tls-certificate and --tls-key or a proxy that ends TLS",
        )
    if settings.tls_certificate is None:
        warning = (
            f"warning: tokens and objects travel unencrypted to {settings.host}: give"
            " --tls-certificate and --tls-key, or listen on 127.0.0.1 behind a proxy that ends"
            " TLS (docs/service.md)"
        )
        return [warning]
    return []


def local_token_notes(store: SqlStore) -> list[str]:
    """Lines for whoever starts the service, if commands on this machine will find no token that
    it accepts."""
    from db.access.tokens import find_token

    make_one = "hvxtune token create --local"
    try:
        text = local_token()
    except HvxtuneError as error:
        return [f"warning: {error}"]
    if text is None:
        return [f"commands here find no token for this service; {make_one} makes one"]
    given = parse(text)
    stored = find_token(store, given.id) if given else None
    if given and stored and stored.secret_digest == given.digest and stored.is_valid(time.time()):
        return []
    return [
        f"the token in {local_token_file()} is not valid for this database; {make_one} makes one"
    ]


def is_loopback(host: str) -> bool:
    """Whether a service that listens on ``host`` can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return bool(found) and all(ip_address(str(one[4][0])).is_loopback for one in found)
