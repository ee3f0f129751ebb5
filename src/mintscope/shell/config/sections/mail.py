"""Settings of e-mail."""

from typing import Literal

from pydantic import Field

from mintscope.shell.config.sections.section import Section
from mintscope.shell.config.values import (
    Mailbox,
    OptionalSecret,
    Port,
)


class MailConfig(Section):
    """E-mails to applicants and people."""

    delivery: Literal["none", "smtp", "page"] = Field(
        default="none",
        description="smtp: by the server named here; none: e-mails wait in the outbox; page: they"
        " are shown at /mailbox to everyone, for demos on the loopback address only.",
    )
    host: str = Field(default="127.0.0.1", description="The mail server.")
    port: Port = Field(default=587, description="Its port.")
    security: Literal["starttls", "tls", "none"] = Field(
        default="starttls",
        description="How the connection is protected; none only to a loopback address.",
    )
    username: str = Field(default="", description="User name for signing in; empty: no sign-in.")
    password: OptionalSecret = Field(default=None, description="Password for signing in.")
    sender: Mailbox = Field(
        default="mintscope@localhost",
        description="The sender address, as `no-reply@example.org`.",
    )
    timeout_s: float = Field(
        default=20.0,
        gt=0,
        le=50,
        allow_inf_nan=False,
        description="Timeout of one e-mail; after a minute another process may send it.",
    )
