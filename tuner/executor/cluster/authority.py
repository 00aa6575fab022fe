"""An authority of one's own, and certificates by it: who has one belongs to the cluster."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import StoreError, ToolchainError, UserError
from tuner.executor.cluster.encryption import Certificates, unusable
from tuner.paths import PRIVATE_FOLDER_MODE, for_this_user, make_private

if TYPE_CHECKING:
    from trustme import CA

VALID_DAYS = 825
"""Of a host's certificate; no client of TLS refuses one for being valid this long."""
_NAME = "hvxtune cluster"
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class Made:
    """New ``folders`` by host. ``new_authority``: there was none yet."""

    folders: dict[str, Path]
    new_authority: bool
    ends_at: datetime


def make_certificates(hosts: Iterable[str], folder: Path) -> Made:
    """Certificates for ``hosts`` by the authority in ``folder`` (``ca.pem``, ``ca.key``), which is
    made if there is none. Each host gets a folder of its name with all that it needs. Keys are for
    this user only. Writes over nothing.

    Raises ``UserError`` for a host that is none or has a certificate already, and for an authority
    that cannot sign; ``StoreError`` if ``folder`` cannot be written; ``ToolchainError`` without the
    package ``trustme``.
    """
    folders = {host: folder / _checked(host) for host in hosts}
    for host, place in folders.items():
        if place.exists():
            raise UserError(
                f"'{host}' has a certificate already, in {place}",
                accepted="hosts without one",
                next_step="remove that folder to have a new one made",
            )
    public, private = folder / "ca.pem", folder / "ca.key"
    new = not (public.exists() or private.exists())
    ends_at = datetime.now(UTC) + timedelta(days=VALID_DAYS)
    try:
        make_private(folder)
        authority = _new_authority(public, private) if new else _authority(public, private)
        for host, place in folders.items():
            _certify(authority, host, Certificates(place), ends_at)
    except OSError as error:
        raise StoreError(
            f"cannot write {error.filename or folder}: {error.strerror}",
            next_step="free space or permissions there, or choose another --to",
        ) from None
    return Made(folders, new, ends_at)


def _checked(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        if _HOST.fullmatch(host):
            return host
    raise UserError(f"'{host[:80]}' is not a host", accepted="a name or an address, such as lab7")


def _trustme() -> type[CA]:
    try:
        from trustme import CA
    except ImportError:
        raise ToolchainError(
            "certificates need the package 'trustme'", next_step="pip install 'hvxtune[dask]'"
        ) from None
    return CA


def _new_authority(public: Path, private: Path) -> CA:
    made = _trustme()(organization_name=_NAME, organization_unit_name="authority")
    _write(private, made.private_key_pem.bytes())
    _write(public, made.cert_pem.bytes())
    return made


def _authority(public: Path, private: Path) -> CA:
    if why := unusable(public, public, private):
        raise UserError(
            f"the authority in {public.parent} cannot sign: {why}",
            accepted=f"{public.name} and {private.name} as this command made them",
            next_step="put them back, or choose another --to: then all hosts need new ones",
        )
    return _trustme().from_pem(public.read_bytes(), private.read_bytes())


def _certify(authority: CA, host: str, files: Certificates, ends_at: datetime) -> None:
    made = authority.issue_cert(
        host, organization_name=_NAME, organization_unit_name="host", not_after=ends_at
    )
    files.folder.mkdir(mode=PRIVATE_FOLDER_MODE)
    _write(files.key, made.private_key_pem.bytes())
    _write(files.certificate, made.cert_chain_pems[0].bytes())
    _write(files.authority, authority.cert_pem.bytes())


def _write(place: Path, content: bytes) -> None:
    with open(place, "xb", opener=for_this_user) as file:
        file.write(content)
