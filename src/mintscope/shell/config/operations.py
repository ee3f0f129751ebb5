"""The configuration of backups, of traces and of who operates the service."""

from typing import Annotated

from pydantic import Field

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section

PageUrl = Annotated[
    Annotated[str, Field(pattern=r"^https://\S+$", max_length=500)] | None, values.UNSET
]


class BackupConfig(Section):
    """Settings of `mintscope backup`, as the timer of systemd runs it."""

    to: values.File = None
    """The folder in which each backup becomes a folder of its own."""
    kept_max: int = Field(default=24, ge=1, le=10_000)
    """The number of newest backups that are kept; of older ones one a day is kept."""
    keep_days: int = Field(default=30, ge=0, le=3_650)
    """Days for which one backup of each day is kept, the newest of that day."""
    secrets_to: values.File = None
    """The folder that `pepper` and `roots` are copied into, apart from the data: neither is of use
    without the other. Unset: each backup has them."""


class TracingConfig(Section):
    """Traces of requests and settlements, sent by OpenTelemetry; needs the extra `otel`."""

    otlp_url: values.OptionalUrl = None
    """The URL of a collector of OTLP over HTTP, as `http://127.0.0.1:4318`. Unset: no traces."""
    otlp_url_file: values.File = None
    """The file that holds otlp_url instead."""
    share_max: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    """The share of requests that are traced, chosen at random."""


class OperatorConfig(Section):
    """Who operates the service, in the footer of every page, on /operator and on receipts."""

    name: str = Field(default="", max_length=100)
    """Name of the person or company that sells."""
    contact: values.Contact = None
    """Where customers write to, `mailto:help@example.org` or an https address."""
    terms: PageUrl = None
    """The https address of the terms of use."""
    privacy: PageUrl = None
    """The https address of the privacy notice."""
    refunds: str = Field(default="", max_length=2_000)
    """When payments are refunded, in plain text; shown at /operator."""
