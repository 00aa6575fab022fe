"""Buckets for tests: moto's server, a stand-in for S3 on loopback."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager


class NewBucket:
    """Makes empty buckets and gives their names; ``environment`` leads clients to them."""

    def __init__(self, endpoint: str) -> None:
        self.environment = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "AKIASTANDIN",
            "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
        }
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        import boto3

        name = f"hvxtune-test-{next(self._numbers)}"
        client = boto3.client(
            "s3",
            endpoint_url=self.environment["AWS_ENDPOINT_URL"],
            region_name=self.environment["AWS_REGION"],
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=name)
        return name


@contextmanager
def bucket_server() -> Iterator[NewBucket]:
    """A server in a thread of this process, on a free port of loopback."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield NewBucket(f"http://{host}:{port}")
    finally:
        server.stop()
