"""The configuration of the list of tokens."""

from pydantic import Field

from mintscope.base.time import DAY_S
from mintscope.shell.config import values
from mintscope.shell.config.sections import Section


class ListsConfig(Section):
    """The list of tokens, and other free data."""

    limit_requests: values.Count = 60
    """Requests to the list, to the free data of a token beside its report, and to the demo answers,
    that a client address may make in a window."""
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S)
    """Length of that window."""
    refresh_s: values.Seconds = 2.0
    """The list is brought up to date this often, and at once if something was folded and finality
    follows within seconds."""
