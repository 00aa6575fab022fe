"""TLS between scheduler, workers and clients: those without a certificate of the lab's own
authority are refused. Without it anyone who reaches the scheduler can run code on every worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tuner.errors import UserError

if TYPE_CHECKING:
    from distributed.security import Security

CA_VARIABLE = "HVXTUNE_DASK_TLS_CA"
CERTIFICATE_VARIABLE = "HVXTUNE_DASK_TLS_CERTIFICATE"
KEY_VARIABLE = "HVXTUNE_DASK_TLS_KEY"


@dataclass(frozen=True)
class Certificates:
    """PEM files: the authority that all share, and this process's certificate with its key."""

    ca: Path
    certificate: Path
    key: Path

    @property
    def security(self) -> Security:
        """For distributed, in each of its roles."""
        from distributed.security import Security

        roles = ("client", "scheduler", "worker")
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.ca),
            **{f"tls_{role}_cert": str(self.certificate) for role in roles},
            **{f"tls_{role}_key": str(self.key) for role in roles},
        )


def certificates(environment: Mapping[str, str] = os.environ) -> Certificates | None:
    """Those that the environment names; ``None`` if it names none. ``UserError`` for a part of
    them, or a file that cannot be read."""
    names = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE)
    given = {name: environment.get(name, "") for name in names}
    if not any(given.values()):
        return None
    for name, text in given.items():
        if not text:
            raise UserError(f"{name} is not set", accepted=f"all of {', '.join(names)}, or none")
        if not os.access(text, os.R_OK) or not Path(text).is_file():
            raise UserError(f"{name}: cannot read {text}", accepted="a PEM file")
    return Certificates(*(Path(text) for text in given.values()))
