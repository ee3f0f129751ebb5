"""The configuration of backups and of traces."""

from pydantic import Field

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class BackupConfig(Section):
    """What `mintscope backup` does, as the timer of systemd runs it."""

    to: values.File = None
    """The folder in which each backup becomes a folder of its own."""
    kept_max: int = Field(default=24, ge=1, le=10_000)
    """Backups that are kept, the newest; of older ones one a day stays."""
    keep_days: int = Field(default=30, ge=0, le=3_650)
    """How many days one backup of each day is kept, the newest of that day."""
    secrets_to: values.File = None
    """The folder that `pepper` and `roots` are copied into, apart from the data: the one is of no
    use without the other. Unset: they are in each backup."""


class TracingConfig(Section):
    """Traces of requests and settlements, sent by OpenTelemetry; needs the extra `otel`."""

    otlp_url: values.OptionalUrl = None
    """Where a collector takes OTLP over HTTP, as `http://127.0.0.1:4318`. Unset: no traces."""
    otlp_url_file: values.File = None
    """The file that holds otlp_url instead."""
    share_max: float = Field(default=1.0, gt=0, le=1, allow_inf_nan=False)
    """The part of all requests that is traced, chosen at random."""
