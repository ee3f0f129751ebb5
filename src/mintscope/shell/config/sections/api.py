"""Settings of the API."""

from pydantic import Field

from mintscope.base.time import DAY_S
from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Count,
    Networks,
    Origin,
    Port,
    Seconds,
)


class ApiConfig(Section):
    """How clients are served."""

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; 0.0.0.0 for every one."
    )
    port: Port = Field(default=8402, description="Port to listen on; 0 takes any free one.")
    origin: Origin = Field(
        default=None,
        description="The address clients use, as `https://api.example.org`; unset: where it"
        " listens.",
    )
    trusted_proxies: Networks = Field(
        default=(),
        description="Addresses or networks whose X-Forwarded-For is trusted, as `10.0.0.0/8`.",
    )
    rate_limit_requests: Count = Field(
        default=30, description="Requests a client may make in a window."
    )
    rate_limit_window_s: int = Field(
        default=60, ge=1, le=DAY_S, description="Length of that window."
    )
    health_limit_requests: Count = Field(
        default=120, description="Requests to /v1/health a client may make in a window."
    )
    health_limit_window_s: int = Field(
        default=60, ge=1, le=DAY_S, description="Length of that window."
    )
    degraded_after_s: Seconds = Field(
        default=30.0, description="Older data is served marked degraded."
    )
    stale_after_s: Seconds = Field(
        default=300.0, description="Older data is not served, and costs nothing."
    )
    poll_interval_ms: int = Field(
        default=50, ge=1, le=10_000, description="Pause before looking for new blocks in the store."
    )
    header_bytes_max: int = Field(
        default=16 * 1024,
        ge=1024,
        le=1024 * 1024,
        description="Size of all headers of a request; more is answered 431.",
    )
    body_bytes_max: int = Field(
        default=64 * 1024,
        ge=1024,
        le=64 * 1024 * 1024,
        description="Size of a request body; more is answered 413.",
    )
    request_timeout_s: Seconds = Field(
        default=14.0, description="How long a client may take to send its request."
    )
    answer_timeout_s: Seconds = Field(
        default=14.0, description="How long a client may take to read its response."
    )
    keep_alive_s: Seconds = Field(
        default=10.0, description="An idle connection is closed after this."
    )
    connections_max: int = Field(
        default=2_000, ge=1, le=100_000, description="Open connections in all."
    )
    connections_per_client_max: int = Field(
        default=256, ge=1, le=100_000, description="Open connections of one client address."
    )
