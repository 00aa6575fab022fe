"""The token that a service leaves for commands on its machine, and what it checks before it
listens: that a token exists, and who could reach it."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from service.auth.audit import record
from service.auth.caller import Quotas, Scope
from service.auth.tokens import local_user, prepare
from service.token_text import parse
from tuner.errors import HvxtuneError, StoreError, UserError
from tuner.machine.addresses import is_loopback
from tuner.machine.whole_files import written_whole
from tuner.paths import PRIVATE_FILE_MODE, for_this_user, state_dir, writable
from tuner.shipped import with_places

if TYPE_CHECKING:
    from db.sql_store import SqlStore
    from service.settings import Settings

FILE_NAME = "token"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def local_token_file() -> Path:
    """Its path, whether or not it exists."""
    return state_dir() / FILE_NAME


def local_token() -> str | None:
    """The token in the state directory, ``None`` without one.

    ``UserError`` if others may read the file or it belongs to somebody else: then the token may
    be known to them, or planted.
    """
    path = local_token_file()
    try:
        # Not through a link: it would have another's mode and owner than what it leads to.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(
            f"cannot read the token in {path}: {error.strerror}",
            accepted="a file that only you can read, no link",
            next_step="remove it and run: hvxtune token create --local",
        ) from None
    try:
        _require_private(path, os.fstat(descriptor))
        return os.read(descriptor, 1000).decode("utf-8", "replace").strip() or None
    finally:
        os.close(descriptor)


def _require_private(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise UserError(
            f"{path} is not a file of yours",
            next_step="remove it and run: hvxtune token create --local",
        )
    if found.st_mode & _OTHERS:
        raise UserError(
            f"others may read the token in {path} (mode {stat.S_IMODE(found.st_mode):04o})",
            accepted="mode 0600",
            next_step=f"chmod 600 {path}; if somebody may have read it, revoke it and run:"
            " hvxtune token create --local",
        )


def keep_local_token(text: str) -> Path:
    """Writes the token for :func:`local_token` to find, in place of an earlier one, with mode 0600
    from the start. Returns the file."""
    path = writable("") / FILE_NAME
    try:
        with written_whole(path, opener=for_this_user) as file:
            os.fchmod(file.fileno(), PRIVATE_FILE_MODE)  # whatever the umask takes away
            file.write(f"{text}\n".encode())
    except OSError as error:
        raise StoreError(
            f"cannot write the token to {path}: {error.strerror}",
            next_step="free space or permissions there",
        ) from None
    return path


@dataclass(frozen=True)
class FirstToken:
    """The token that a service made for itself. ``text`` is printed, this once; ``note`` says why
    it could not be written to ``file``."""

    text: str
    file: Path
    note: str = ""


def ensure_token(store: SqlStore) -> FirstToken | None:
    """Makes the first token ever, with scope ``admin``, and leaves it where commands of the same
    user on this machine find it. ``None`` if the database has had a token."""
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
    """Refuses to listen beyond this machine while nobody has a token (``UserError``); returns
    warnings for the person who starts the service. Call it before :func:`ensure_token`."""
    if is_loopback(settings.host):
        return []
    from db.access.tokens import all_tokens

    now = time.time()
    if not any(token.is_valid(now) for token in all_tokens(store)):
        raise UserError(
            f"--host {settings.host} can be reached from other machines, with no valid token yet",
            accepted="127.0.0.1, or any address once a token was made on purpose",
            next_step="run `hvxtune token create --name NAME --scope admin` first, and use"
            " --tls-certificate and --tls-key or a proxy that ends TLS",
        )
    if settings.tls_certificate is None:
        warning = (
            f"warning: tokens and objects travel unencrypted to {settings.host}: give"
            " --tls-certificate and --tls-key, or listen on 127.0.0.1 behind a proxy that ends"
            f" TLS ({with_places('docs/service.md')})"
        )
        return [warning]
    return []


def local_token_notes(store: SqlStore) -> list[str]:
    """Warnings for the person who starts the service, if commands on this machine will find no
    token that it accepts."""
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
