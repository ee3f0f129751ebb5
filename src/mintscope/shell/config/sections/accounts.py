"""Settings of accounts."""

from pydantic import Field

from mintscope.base.time import DAY_S, HOUR_S
from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Count,
)


class AccountsConfig(Section):
    """Rate limits of sign-ups, exchanges and API keys."""

    signup_limit_requests: Count = Field(
        default=5,
        description="Applications a client may make in a window, new or known already; the clients"
        " of an IPv6 /48 together make four times as many.",
    )
    signup_limit_window_s: int = Field(
        default=HOUR_S, ge=1, le=DAY_S, description="Length of that window."
    )
    exchange_limit_requests: Count = Field(
        default=1,
        description="Exchanges an e-mail address may try in a window, with the right secret; and"
        " with any other, for each client.",
    )
    exchange_limit_window_s: int = Field(
        default=5, ge=1, le=DAY_S, description="Length of that window."
    )
    limit_requests: Count = Field(
        default=60, description="Requests under /api a client may make in a window, all together."
    )
    limit_window_s: int = Field(default=60, ge=1, le=DAY_S, description="Length of that window.")
    key_limit_requests: Count = Field(
        default=60, description="Requests an API key may make in a window."
    )
    key_limit_window_s: int = Field(
        default=60, ge=1, le=DAY_S, description="Length of that window."
    )
