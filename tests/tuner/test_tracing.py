"""Ids go with the work, across threads and processes; traces are off unless they are asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tuner import tracing
from tuner.errors import ToolchainError, UserError
from tuner.executor.cluster.tasks import Answer, followed


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.start("test", exporter)
    yield exporter
    tracing.stop()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SDK_DISABLED", "TRACES_EXPORTER", "EXPORTER_OTLP_ENDPOINT", "SERVICE_NAME"):
        monkeypatch.delenv(f"OTEL_{name}", raising=False)


def requested(request_id: str, traceparent: str = "") -> None:
    """A request, as the service handles it."""
    tracing.bind(request_id=request_id)
    with tracing.request_span("POST", traceparent):
        pass


def test_ids_are_bound_within_a_span_and_no_longer() -> None:
    with tracing.span("job", job="ab12"):
        with tracing.span("trial", trial=3):
            assert tracing.ids() == {"job": "ab12", "trial": "3"}
        assert tracing.ids() == {"job": "ab12"}
    assert tracing.ids() == {}


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_nothing_of_opentelemetry_is_loaded_unless_it_is_asked_for(
    setting: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in setting.items():
        monkeypatch.setenv(name, value)
    program = (
        "import sys, service.logs as logs\n"
        "logs.log_to_stderr(logs.LogFormat.JSON, 'test')\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == "[]"


def test_an_exporter_that_hvxtune_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(UserError, match="OTEL_TRACES_EXPORTER 'zipkin'"):
        tracing.start("test")


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ToolchainError, match=r"hvxtune\[otel\]"):
        tracing.start("test")


def test_work_of_a_request_is_in_its_trace_even_where_only_its_id_is_known(
    spans: InMemorySpanExporter,
) -> None:
    for request_id in (tracing.new_request_id(), "build-17"):
        spans.clear()
        with tracing.span("outside", request_id=request_id):
            pass
        (job,) = spans.get_finished_spans()
        copy_context().run(requested, request_id)
        _, request = spans.get_finished_spans()
        assert request.context.trace_id == job.context.trace_id
        assert job.parent.span_id == request.context.span_id


def test_a_request_is_in_the_trace_of_its_client(spans: InMemorySpanExporter) -> None:
    trace, client = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    sent = f"00-{trace}-{client}-01"
    copy_context().run(requested, tracing.new_request_id(sent), sent)
    (request,) = spans.get_finished_spans()
    assert f"{request.context.trace_id:032x}" == trace
    assert f"{request.parent.span_id:016x}" == client


def test_calls_elsewhere_have_the_ids_and_the_span_of_who_asked(
    spans: InMemorySpanExporter,
) -> None:
    def call() -> Answer[dict[str, str]]:
        return Answer("w1", dict(tracing.ids()))

    with tracing.span("trial", job="ab12", trial=3):
        brought = tracing.carried()
    with tracing.span("other work of the worker"):
        answer = followed(brought, call)
    assert answer.result() == {"job": "ab12", "trial": "3"}
    by_name = {span.name: span for span in spans.get_finished_spans()}
    there = by_name["worker call"]
    assert there.parent.span_id == by_name["trial"].context.span_id
    assert there.attributes["hvxtune.job"] == "ab12"
    assert tracing.ids() == {}
