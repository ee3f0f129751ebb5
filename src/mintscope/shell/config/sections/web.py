"""Settings of the pages."""

from pydantic import Field

from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Count,
    OptionalPort,
)


class WebConfig(Section):
    """Pages for people, on the listener of the api."""

    enabled: bool = Field(default=True, description="Serve the pages.")
    session_idle_minutes: int = Field(
        default=30, ge=1, le=10_080, description="An unused session ends after this."
    )
    session_hours_max: int = Field(
        default=12, ge=1, le=8_760, description="Any session ends after this."
    )
    guesses_max: Count = Field(
        default=10,
        description="Wrong passwords for one e-mail address from one client in 15 minutes; other"
        " clients are counted apart.",
    )
    client_guesses_max: Count = Field(
        default=50,
        description="Wrong passwords from one client in 15 minutes, for any e-mail address.",
    )
    sign_ups_per_hour_max: Count = Field(
        default=20, description="Accounts that a client may make in an hour."
    )
    admin_host: str = Field(
        default="127.0.0.1", description="Address of a listener for administrators alone."
    )
    admin_port: OptionalPort = Field(
        default=None,
        description="Its port. Unset: there is none, administration is on the listener of the api.",
    )
