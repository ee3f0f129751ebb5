"""Creates the transport of e-mails from the configuration, and tests the mail server."""

from typing import Final

from aiosmtplib import SMTPException

from mintscope.accounts.mail import delivery
from mintscope.app.config.config import MailConfig
from mintscope.kit.clock import Clock

NAME: Final = "mintscope"  # of the service, in e-mails and for passkeys


def transport_of(mail: MailConfig, clock: Clock) -> delivery.Transport | None:
    """Return the transport of e-mails; None if e-mails are neither sent nor shown.

    Without a transport, e-mails stay in the outbox, and are given up after three days.
    """
    if mail.delivery == "smtp":
        return delivery.SmtpTransport(mail_server_of(mail), clock)
    return delivery.PageTransport() if mail.delivery == "page" else None


async def mail_server_trouble(mail: MailConfig) -> str | None:
    """Return the reason why the mail server is unusable; None if it is usable.

    Connects, and starts TLS and signs in as configured, but sends no e-mail.
    """
    try:
        async with delivery.connected(mail_server_of(mail)) as client:
            await client.noop()
    except (SMTPException, OSError, ValueError) as error:
        return " ".join(str(error).split()) or "no answer in time"
    return None


def mail_server_of(mail: MailConfig) -> delivery.MailServer:
    """Return the mail server in the settings *mail*."""
    return delivery.MailServer(
        host=mail.host,
        port=mail.port,
        security=mail.security,
        username=mail.username,
        password="" if mail.password is None else mail.password.get_secret_value(),
        sender=mail.sender,
        name=NAME,
        timeout_s=mail.timeout_s,
    )
