"""Certificates of this machine by an authority made for a test."""

from __future__ import annotations

from pathlib import Path

import trustme


def certificate(folder: Path) -> tuple[Path, Path, Path]:
    """New files in ``folder``: a new authority's, a certificate for loopback, and its key."""
    authority = trustme.CA()
    files = folder / "ca.pem", folder / "certificate.pem", folder / "key.pem"
    made = authority.issue_cert("127.0.0.1", "localhost")
    folder.mkdir()
    authority.cert_pem.write_to_path(str(files[0]))
    made.cert_chain_pems[0].write_to_path(str(files[1]))
    made.private_key_pem.write_to_path(str(files[2]))
    return files
