"""Who uses this machine, and the token that a service leaves for its commands."""

from __future__ import annotations

import getpass
import os
import re
import stat
from pathlib import Path

from tuner.errors import StoreError, UserError
from tuner.paths import state_dir, writable

FILE_NAME = "token"
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}"
"""Of the users that tokens are for."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def local_token_file() -> Path:
    """Where it lies, whether it is there or not."""
    return state_dir() / FILE_NAME


def local_token() -> str | None:
    """The token in the state directory, ``None`` if there is none.

    ``UserError`` if others than the user may read the file, or it is not the user's: then the
    token may be known, or of somebody's choice.
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
    """Writes the token for :func:`local_token` to find, in place of the one that is there, with
    mode 0600 from the start. Gives the file."""
    folder = writable("")
    path = folder / FILE_NAME
    half = folder / f".{FILE_NAME}.{os.getpid()}"
    try:
        half.unlink(missing_ok=True)
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)  # whatever the umask takes away
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        half.unlink(missing_ok=True)
        raise StoreError(
            f"cannot write the token to {path}: {error.strerror}",
            next_step="free space or permissions there",
        ) from None
    return path


def local_user() -> str:
    """The login name of who runs this process, if it will do for a token; else ``admin``."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = ""
    return name if re.fullmatch(NAME_PATTERN, name) else "admin"
