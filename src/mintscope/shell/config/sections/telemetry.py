"""Settings of the log and the metrics."""

from typing import Literal

from pydantic import Field

from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Port,
)


class LogConfig(Section):
    """Log lines, on stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least that is logged."
    )
    format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto: for people on a terminal, JSON lines elsewhere."
    )


class MetricsConfig(Section):
    """Prometheus metrics, each process on a port of its own."""

    enabled: bool = Field(default=True, description="Serve GET /metrics.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    ingest_port: Port = Field(default=9464, description="Port of the ingest process.")
    api_port: Port = Field(default=9465, description="Port of the api process.")
