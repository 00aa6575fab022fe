"""TLS between scheduler, workers and clients.

Dask runs what it is sent, so whoever reaches one of them can run code there. Processes that can be
reached from other machines, or reach for them, therefore have certificates of one authority, unless
their user says that they go without; see :mod:`tuner.executor.cluster.authority`.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import UserError
from tuner.machine.addresses import is_loopback

if TYPE_CHECKING:
    from distributed.security import Security

TLS_VARIABLE = "HVXTUNE_CLUSTER_TLS"
WITHOUT_TLS = "none"
"""As the variable's value: other machines are reached without certificates."""


@dataclass(frozen=True)
class Certificates:
    """A folder of PEM files: the authority that all of a cluster share, and the certificate of this
    machine with its unencrypted key."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The authority's certificate."""
        return self.folder / "ca.pem"

    @property
    def certificate(self) -> Path:
        """This machine's."""
        return self.folder / "certificate.pem"

    @property
    def key(self) -> Path:
        """The key of :attr:`certificate`."""
        return self.folder / "key.pem"

    @property
    def security(self) -> Security:
        """For distributed, in each of its roles."""
        from distributed.security import Security

        roles = ("client", "scheduler", "worker")
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.authority),
            **{f"tls_{role}_cert": str(self.certificate) for role in roles},
            **{f"tls_{role}_key": str(self.key) for role in roles},
        )

    def check(self) -> None:
        """``UserError`` if the files are missing or do not belong together."""
        if why := unusable(self.authority, self.certificate, self.key):
            names = ", ".join(one.name for one in (self.authority, self.certificate, self.key))
            raise UserError(
                f"{TLS_VARIABLE} '{self.folder}': {why}",
                accepted=f"a folder with {names}, the last unencrypted",
                next_step="make one with `hvxtune cluster certificates HOST --to DIR`",
            )


def unusable(authority: Path, certificate: Path, key: Path) -> str:
    """Why these PEM files cannot be used together; empty if they can."""
    for place in (authority, certificate, key):
        if not place.is_file():
            return f"{place.name} is missing"
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_verify_locations(authority)
        # An empty password: the terminal would be asked for a missing one.
        context.load_cert_chain(certificate, key, password="")
    except ssl.SSLError as error:
        return f"{error.reason or error}".lower().replace("_", " ")
    except OSError as error:
        return error.strerror or str(error)
    return ""


def certificates() -> Certificates | None:
    """Those of this process; ``None`` if it has none. ``UserError`` if they cannot be used."""
    given = os.environ.get(TLS_VARIABLE, "")
    if given in ("", WITHOUT_TLS):
        return None
    found = Certificates(Path(given).expanduser().absolute())
    found.check()
    return found


def certificates_for(host: str, named: str) -> Certificates | None:
    """The certificates with which this process speaks to ``host``, or listens there. ``named`` is
    how its user gave the address.

    ``UserError`` if other machines are within reach, and there are neither certificates nor the
    word of the user that there need be none.
    """
    found = certificates()
    if found or os.environ.get(TLS_VARIABLE) == WITHOUT_TLS or is_loopback(host):
        return found
    raise UserError(
        f"{named} leads beyond this machine, and whoever reaches a cluster without certificates can"
        " run code on it",
        accepted=f"loopback (127.0.0.1), or any address with certificates in {TLS_VARIABLE}",
        next_step="make them with `hvxtune cluster certificates HOST... --to DIR`, or go without by"
        f" --without-tls or {TLS_VARIABLE}={WITHOUT_TLS}",
    )
