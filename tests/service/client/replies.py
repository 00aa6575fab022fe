"""What the scripted server says in these tests."""

from __future__ import annotations

import json

from tests.rig.scripted_server import JSON, Answer
from tuner.identity import digest_of_bytes

OBJECT = b"\x7fELF object"
SCHEDULE = {
    "id": "job1-7",
    "kernel": "add_u8",
    "params": {"n": 256},
    "contract": "static",
    "target": "hexagon-v66",
    "symbol": "add_u8_n256_static",
    "object_digest": digest_of_bytes(OBJECT),
}
JOBS = Answer(201, {"batch": None, "jobs": [{"job": "job1", "state": "queued"}]}, JSON)
BUSY = Answer(503, b"busy", {"Retry-After": "0"})


def good(body, **headers) -> Answer:
    return Answer(200, body, {**JSON, **headers})


def event(number: int, kind: str, **data) -> bytes:
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def stream(*parts: bytes, breaks_off: bool = False) -> Answer:
    return Answer(200, b"".join(parts), {"Content-Type": "text/event-stream"}, breaks_off)
