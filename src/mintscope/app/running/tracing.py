"""Sends traces by OpenTelemetry, and holds the states of processes that the parent reports."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from mintscope import __version__
from mintscope.app.config.groups import TracingConfig
from mintscope.app.engine import extra
from mintscope.app.running.commit import commit
from mintscope.app.running.processes import Sibling
from mintscope.kit.checks import Check
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import RESTARTS, SPANS, Attributes

PATH: Final = "/v1/traces"
TIMEOUT_S: Final = 5
FLUSH_S: Final = 2.0  # time limit for sending the last spans at the end
NS: Final = 1_000_000_000
MS_NS: Final = 1_000_000
QUEUE_MAX: Final = 2_048  # spans that may wait to be sent; further spans are dropped


@contextmanager
def tracing(config: TracingConfig, service: str, clock: Clock) -> Iterator[None]:
    """Send spans that end during the block to the collector of *config*, from a thread.

    Without `tracing.otlp_url`, nothing is sent.
    Spans are lost while the collector is unreachable; requests do not wait for it.

    service   the name of this process in the traces, after "mintscope-"
    Raises    UnusableStore if the extra is not installed
    """
    if config.otlp_url is None:
        yield
        return
    with extra("otel", "opentelemetry-sdk", "tracing.otlp_url"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - extra
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - extra
        from opentelemetry.sdk.trace.sampling import TraceIdRatioBased  # noqa: PLC0415 - extra
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - extra

    resource = Resource.create(
        {
            "service.name": f"mintscope-{service}",
            "service.version": __version__,
            "mintscope.commit": commit() or "unknown",
        }
    )
    url = config.otlp_url.get_secret_value().rstrip("/")
    exporter = OTLPSpanExporter(endpoint=f"{url}{PATH}", timeout=TIMEOUT_S)
    provider = TracerProvider(resource=resource, sampler=TraceIdRatioBased(config.share_max))
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=QUEUE_MAX))
    tracer = provider.get_tracer("mintscope", __version__)

    def note(name: str, elapsed_s: float, attributes: Attributes) -> None:
        end_ns = clock.now() * MS_NS
        span = tracer.start_span(
            name,
            kind=SpanKind.SERVER,
            attributes=dict(attributes),
            start_time=end_ns - int(elapsed_s * NS),
        )
        if int(attributes.get("http.response.status_code", 0)) >= 500:  # noqa: PLR2004 - of HTTP
            span.set_status(Status(StatusCode.ERROR))
        span.end(end_time=end_ns)

    SPANS.listener = note
    try:
        yield
    finally:
        SPANS.listener = None
        # In a thread, because `shutdown` sends all waiting spans, and may take longer than FLUSH_S.
        ending = threading.Thread(target=provider.shutdown, name="traces", daemon=True)
        ending.start()
        ending.join(FLUSH_S)
        give_up: Callable[[], None] = exporter.shutdown
        give_up()  # spans that are still unsent are lost


PARENT_SAYS: Final = "processes"


class Siblings:
    """The states of all processes with the same parent, as the parent has last reported them.

    has_parent   whether this process has a parent that reports states
    is_restart   whether this process was restarted
    """

    def __init__(self, *, has_parent: bool) -> None:
        self._has_parent = has_parent
        self.is_restart = False
        self._known: dict[str, Sibling] = {}

    def hear(self, line: bytes) -> None:
        """Store the states of all processes by name, which the parent has sent as JSON."""
        self._known = msgspec.json.decode(line, type=dict[str, Sibling])
        for name, sibling in self._known.items():
            RESTARTS.labels(name).set(sibling.restarts)

    async def expect_none_stopped(self) -> None:
        """Raise ServiceUnavailable if a process has stopped for good."""
        stopped = sorted(name for name, sibling in self._known.items() if sibling.is_stopped)
        if stopped:
            raise ServiceUnavailable(
                f"{', '.join(stopped)} has ended and is not started again; its log says why"
            )

    @property
    def checks(self) -> list[Check]:
        """The check that no sibling of this process has stopped for good; none without a parent."""
        return [Check(PARENT_SAYS, self.expect_none_stopped)] if self._has_parent else []
