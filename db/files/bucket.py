"""Artifacts in an S3-compatible bucket: for machines that share nothing but a network.

Credentials, region and endpoint come from the usual environment variables of AWS's tools
(``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_REGION``,
``AWS_ENDPOINT_URL``, or the role of the machine). obstore reads them; nothing here does, but to
keep them out of messages.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from tuner.errors import StoreError, ToolchainError, UserError
from tuner.keeping.artifact_storage import ArtifactStorage, StoredFile

if TYPE_CHECKING:
    from obstore.store import S3Store

_CONNECT_S = 5
_REQUEST_S = 30
_RETRIES = 3
_RETRIED_S = 20
"""A request is given up after this long; then the caller says so and tries again later."""
_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_TOKEN")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PREFIX = re.compile(r"[A-Za-z0-9!_.*'()/-]{0,400}")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_NO_BUCKET = "NoSuchBucket"
_LONGEST_REASON = 200


class S3Bucket(ArtifactStorage):
    """Files as objects of a bucket below a prefix. The bucket has to exist."""

    def __init__(self, client: S3Store, place: str) -> None:
        self._client = client
        self._place = place

    @classmethod
    def open(cls, location: str, database: object) -> Self:
        """``location`` is ``//BUCKET`` or ``//BUCKET/PREFIX``."""
        parts = urlsplit(f"s3:{location}")
        bucket, prefix = parts.netloc, parts.path.strip("/")
        if (
            not _BUCKET.fullmatch(bucket)
            or not _PREFIX.fullmatch(prefix)
            or (parts.query or parts.fragment or ".." in prefix)
        ):
            # What stands before an @ may be a secret that somebody put into the address.
            shown = f"s3:{location}" if "@" not in location else "s3://...@..."
            raise UserError(
                f"'{shown[:100]}' names no bucket",
                accepted="s3://BUCKET or s3://BUCKET/PREFIX",
                next_step="credentials belong into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
            )
        place = f"s3://{bucket}/{prefix}".rstrip("/")
        return cls(_client(bucket, prefix, place), place)

    @property
    def place(self) -> str:
        return self._place

    def path_of(self, key: str) -> str:
        return f"{self._place}/{key}"

    def size(self, key: str) -> int | None:
        import obstore

        with _errors(self._place):
            try:
                return int(obstore.head(self._client, key)["size"])
            except FileNotFoundError:
                return None

    def require_present(self) -> None:
        import obstore

        with _errors(self._place):
            for _ in obstore.list(self._client, "marks", chunk_size=1):
                return

    def files(self) -> Iterator[StoredFile]:
        import obstore

        with _errors(self._place):
            for some in obstore.list(self._client):
                for one in some:
                    yield StoredFile(one["path"], one["size"], one["last_modified"].timestamp())

    def _get(self, key: str) -> bytes | None:
        import obstore

        with _errors(self._place):
            try:
                return bytes(obstore.get(self._client, key).bytes())
            except FileNotFoundError as error:
                if _NO_BUCKET in str(error):
                    raise
                return None

    def _put(self, key: str, data: bytes) -> None:
        import obstore

        with _errors(self._place):
            # One request: whole or not at all, and no parts are left behind.
            obstore.put(self._client, key, data, use_multipart=False)

    def _delete(self, key: str) -> None:
        import obstore

        with _errors(self._place):
            try:
                obstore.delete(self._client, key)
            except FileNotFoundError:
                return


def _client(bucket: str, prefix: str, place: str) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError:
        raise ToolchainError(
            f"artifacts in {place} need a package that is not installed (obstore)",
            next_step="install it with: pip install 'hvxtune[s3]'",
        ) from None
    how: dict[str, Any] = {
        "client_options": {
            # An endpoint with http:// is meant so: a server in the caller's own network.
            "allow_http": any(_is_plain(os.environ.get(name)) for name in _ENDPOINTS),
            "connect_timeout": timedelta(seconds=_CONNECT_S),
            "timeout": timedelta(seconds=_REQUEST_S),
        },
        "retry_config": {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=_RETRIED_S),
        },
    }
    with _errors(place):
        return S3Store(bucket, prefix=prefix or None, **how)


def _is_plain(endpoint: str | None) -> bool:
    return (endpoint or "").startswith("http://")


@contextmanager
def _errors(place: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, OSError, ValueError) as error:
        # Without the cause: its text may quote what was sent.
        raise _unusable(place, error) from None


def _unusable(place: str, error: Exception) -> StoreError:
    return StoreError(
        f"the bucket {place} cannot be used: {_reason(error)}",
        next_step="check the bucket, AWS_ENDPOINT_URL, AWS_REGION and the credentials in the "
        "environment",
    )


def _reason(error: Exception) -> str:
    """One line, without the credentials of the environment."""
    text = str(error)
    code = _CODE.search(text)
    if code is not None:
        return code[1]
    line = " ".join(text.split("Debug source:")[0].split())
    for name in _SECRETS:
        secret = os.environ.get(name)
        if secret:
            line = line.replace(secret, "...")
    return line[:_LONGEST_REASON] or type(error).__name__
