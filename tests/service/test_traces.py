"""From a request to the compiler, in one trace."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.service.served import served
from tuner.conformance.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

JOB = {"kernel": "scale_u8", "budget": {"trials": 3}, "sampler": "random"}


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A stand-in for an OTLP collector: its address, and what it got, as service and span."""
    found: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                named = {a.key: a.value.string_value for a in resource.resource.attributes}
                spans = [span for scope in resource.scope_spans for span in scope.spans]
                found.extend((named["service.name"], span) for span in spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", found
        server.shutdown()


def test_a_job_is_traced_from_its_request_on_and_its_log_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    with collector() as (address, found):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with served(state, "--log-format", "json") as service:
            known = {"Authorization": f"Bearer {service.token}"}
            answer = httpx.post(
                service.url + "/v1/jobs", json=JOB, headers=known, timeout=PATIENCE_S
            )
            assert answer.status_code == 201, answer.text
            job = answer.json()["jobs"][0]["job"]
            until(lambda: service.get(f"/v1/jobs/{job}").json()["state"] == "done", 0.2)
            assert service.end() == 0
        log = [json.loads(one) for one in service.log.read_text().splitlines()]
    named: dict[str, list[Any]] = {}
    for service_name, span in found:
        named.setdefault(span.name, []).append((service_name, span))
    [(who, request)] = named["POST /v1/jobs"]
    [(conductor, traced)] = named["job"]
    assert (who, conductor) == ("hvxtune-service", "hvxtune-conductor")
    assert traced.trace_id == request.trace_id
    assert traced.parent_span_id == request.span_id
    trials = [span for _, span in named["trial"]]
    assert [span.parent_span_id for span in trials] == [traced.span_id] * 3
    for name in ("compile", "measure"):
        parents = {span.parent_span_id for _, span in named[name]}
        assert parents
        assert parents <= {span.span_id for span in trials}
    about = [one for one in log if one.get("job") == job]
    assert {one["trial"] for one in about if "trial" in one} == {"0", "1", "2"}
    assert len({one["request_id"] for one in about}) == 1
