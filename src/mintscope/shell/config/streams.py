"""The configuration of streams."""

from pydantic import Field

from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class StreamsConfig(Section):
    """Streams of clients: GET /v1/stream of the api process."""

    open_max: values.Count = 1_000
    """Open streams in all; each is one of the connections that api.connections_max counts."""
    per_account_max: values.Count = 20
    """Open streams of one credit token, or of the account of an API key."""
    mints_max: int = Field(default=50, ge=1, le=50)
    """Tokens of one stream."""
