"""Work can be followed by its ids: request, job, trial and device.

They travel in a context variable, which every line of the log and every span of a trace takes them
from, and go along with calls to workers. Traces are OpenTelemetry's, from the extra ``otel``. They
are off, and nothing of it is loaded, unless its standard variables say where to send them.

A job outlives the request that submitted it, and all that is stored of that is its id; so the id is
what a trace is found by. With traces it holds the ids of trace and span, unless a client chose it;
then both are taken from its digest.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from tuner.errors import ToolchainError, UserError

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

REQUEST = "request_id"
_TRACEPARENT = "traceparent"
_OURS = re.compile(r"([0-9a-f]{32})-([0-9a-f]{16})")
_W3C = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_PLACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"

_ids: ContextVar[Mapping[str, str]] = ContextVar("ids", default={})  # noqa: B039 - never changed
_chosen: ContextVar[tuple[int, int] | None] = ContextVar("chosen", default=None)
_provider: TracerProvider | None = None


def ids() -> Mapping[str, str]:
    """The ids of the current work, by name."""
    return _ids.get()


def bind(**more: object) -> None:
    """Adds to the ids of this thread or task, until it ends."""
    _ids.set({**_ids.get(), **{name: str(value) for name, value in more.items()}})


def active() -> bool:
    """Whether this process sends traces."""
    return _provider is not None


def start(service: str, exporter: SpanExporter | None = None) -> None:
    """Sends the traces of this process, if ``OTEL_EXPORTER_OTLP_ENDPOINT`` and its like say where.

    ``service`` is its name unless ``OTEL_SERVICE_NAME`` says it. ``exporter`` is for tests. Raises
    ``ToolchainError`` without the extra, ``UserError`` for an exporter that hvxtune lacks.
    """
    global _provider
    if exporter is None and not _wanted():
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    except ImportError:
        raise ToolchainError(
            "traces need the packages of OpenTelemetry",
            next_step="pip install 'hvxtune[otel]', or set OTEL_SDK_DISABLED=true",
        ) from None

    class Ids(RandomIdGenerator):
        """Those of the request, for its own span."""

        def generate_trace_id(self) -> int:
            chosen = _chosen.get()
            return chosen[0] if chosen else super().generate_trace_id()

        def generate_span_id(self) -> int:
            chosen = _chosen.get()
            return chosen[1] if chosen else super().generate_span_id()

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: service}
    made = TracerProvider(resource=Resource.create(named), id_generator=Ids())
    made.add_span_processor(
        SimpleSpanProcessor(exporter) if exporter else BatchSpanProcessor(OTLPSpanExporter())
    )
    _provider = made


def stop() -> None:
    """Sends the rest, and no more."""
    global _provider
    if _provider is not None:
        _provider.shutdown()
        _provider = None


def _wanted() -> bool:
    exporter = os.environ.get(_EXPORTER, "")
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporter == "none":
        return False
    if exporter not in ("", "otlp"):
        raise UserError(
            f"{_EXPORTER} '{exporter[:80]}'",
            accepted="otlp or none",
            next_step="send OTLP to a collector, which can export to anything else",
        )
    return bool(exporter) or any(os.environ.get(name) for name in _PLACES)


@contextmanager
def span(name: str, **more: object) -> Iterator[Any]:
    """Binds ``more`` ids within, and makes a span of it, which it yields; ``None`` without traces.

    Without a span around it, it is part of the request that its ids name.
    """
    before = _ids.set({**_ids.get(), **{key: str(value) for key, value in more.items()}})
    try:
        if _provider is None:
            yield None
            return
        with _provider.get_tracer("hvxtune").start_as_current_span(
            name, context=_context(), attributes=_attributes()
        ) as made:
            yield made
    finally:
        _ids.reset(before)


@contextmanager
def request_span(name: str, traceparent: str) -> Iterator[Any]:
    """The span of the current request, within that of a client who sent ``traceparent``."""
    if _provider is None:
        yield None
        return
    trace_id, span_id = _identity(ids()[REQUEST])
    sent = _W3C.fullmatch(traceparent)
    context = None
    if sent and int(sent[1], 16) == trace_id:
        context = _extracted(traceparent)
    chosen = _chosen.set((trace_id, span_id))
    try:
        made = _provider.get_tracer("hvxtune").start_span(
            name, context=context, attributes=_attributes()
        )
    finally:
        _chosen.reset(chosen)
    from opentelemetry.trace import use_span

    with use_span(made, end_on_exit=True):
        yield made


def new_request_id(traceparent: str = "") -> str:
    """An id for a request that brought none, within the trace of a client who sent
    ``traceparent``."""
    if _provider is None:
        return secrets.token_hex(8)
    sent = _W3C.fullmatch(traceparent)
    return f"{sent[1] if sent else secrets.token_hex(16)}-{secrets.token_hex(8)}"


def carried() -> dict[str, str]:
    """The ids and the span, for work in another process."""
    found = dict(ids())
    if _provider is not None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(found)
    return found


@contextmanager
def continued(name: str, brought: Mapping[str, str]) -> Iterator[None]:
    """Does in this process what :func:`carried` came with."""
    told = {key: value for key, value in brought.items() if key != _TRACEPARENT}
    if _provider is None or _TRACEPARENT not in brought:
        with span(name, **told):
            yield
        return
    from opentelemetry.context import attach, detach

    token = attach(_extracted(brought[_TRACEPARENT]))
    try:
        with span(name, **told):
            yield
    finally:
        detach(token)


def _identity(request_id: str) -> tuple[int, int]:
    """The ids of the trace and the span of a request."""
    ours = _OURS.fullmatch(request_id)
    if ours:
        return int(ours[1], 16), int(ours[2], 16)
    digest = hashlib.sha256(request_id.encode()).digest()
    return int.from_bytes(digest[:16]), int.from_bytes(digest[16:24])


def _attributes() -> dict[str, str]:
    return {f"hvxtune.{name}": value for name, value in ids().items()}


def _extracted(traceparent: str) -> Context:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({_TRACEPARENT: traceparent})


def _context() -> Context | None:
    """For a span without one around it: that of its request."""
    from opentelemetry import trace

    request = ids().get(REQUEST)
    if not request or trace.get_current_span().get_span_context().is_valid:
        return None
    trace_id, span_id = _identity(request)
    parent = trace.SpanContext(
        trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED)
    )
    return trace.set_span_in_context(trace.NonRecordingSpan(parent))
