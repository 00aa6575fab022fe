"""HEAD is answered wherever GET is, by the same head."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from db.sql_store import SqlStore
from tests.service.live import live
from tests.service.stored import problem, store_schedule
from tuner.conformance.patience import PATIENCE_S
from tuner.conformance.records import SPACE, TOOLCHAIN, spec

pytestmark = pytest.mark.sqlite

SHAPE = {"m": 64, "n": 128, "k": 128}


@pytest.mark.parametrize(
    "path",
    [
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/kernels",
        "/v1/schedules/best?kernel=gemm_u8&param=m=64,n=128,k=128",
        "/v1/schedules/{schedule}/object",
        "/v1/nowhere",
        "/docs",
        "/ui/login",
        "/ui/static/base.css",
    ],
)
def test_the_head_is_that_of_get(client: TestClient, store: SqlStore, path: str) -> None:
    path = path.format(schedule=store_schedule(store, problem(**SHAPE), 1000))
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code
    assert head.content == b""
    changing = {"x-request-id", "set-cookie", "content-length"}
    assert {k: v for k, v in head.headers.items() if k not in changing} == {
        k: v for k, v in got.headers.items() if k not in changing
    }
    assert ("content-length" in head.headers) == ("content-length" in got.headers)


def test_a_stream_ends_with_its_head_and_the_connection_goes_on(
    app: FastAPI, store: SqlStore
) -> None:
    job = store.create_job(spec(), SPACE, TOOLCHAIN)
    with live(app) as url, socket.create_connection(("127.0.0.1", urlsplit(url).port)) as line:
        line.settimeout(PATIENCE_S)
        reader = line.makefile("rb")
        for path in (f"/v1/jobs/{job.id}/events", "/healthz"):
            line.sendall(f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
            while reader.readline() not in (b"\r\n", b""):
                pass
