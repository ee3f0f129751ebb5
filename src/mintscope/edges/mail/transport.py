"""Handing e-mails to a mail server by SMTP, as Internet messages (RFC 5322)."""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from typing import Final, Literal

from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
)
from email_validator import validate_email
from typing_extensions import override

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.base.time import utc
from mintscope.core.accounts.mail.email import Email

REASON_LENGTH_MAX: Final = 200
FAREWELL_S: Final = 1.0
PERMANENT: Final = 500
PLAIN: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")
POLICY: Final = "5.7."  # RFC 3463: the server refuses this sender, for now


class Unsent(Exception):
    """The e-mail was not accepted; the message says why, for the operator."""


class EmailRefused(Unsent):
    """The e-mail never will be accepted: there is no such address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The mail server that e-mails are handed to.

    security    starttls: the connection must be protected before anything is sent; tls: from its
                first byte; none
    username    empty: do not sign in
    sender      the address e-mails come from
    name        what stands before it
    timeout_s   for an e-mail, from connecting to its acceptance
    context     None: certificates that the machine trusts
    """

    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    username: str
    password: str
    sender: str
    name: str
    timeout_s: float
    context: ssl.SSLContext | None = None


class SmtpTransport:
    """Sends e-mails, each over a connection of its own."""

    def __init__(self, server: MailServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def send(self, email: Email) -> None:
        """Hand *email* over.  Raises EmailRefused, or Unsent for what may succeed later."""
        server = self._server
        now = self._clock.now()
        try:
            message = message_of(email, sender=server.sender, name=server.name, at=now)
        except ValueError as cause:
            raise EmailRefused(f"expected an address to write to: {_shown(cause)}") from cause
        sender = ascii_address(server.sender)
        recipient = ascii_address(email.recipient)
        try:
            async with connected(server) as client:
                await client.sendmail(sender, [recipient], message.as_bytes())
        except SMTPRecipientsRefused as refusal:
            raise _refusal_of(refusal.recipients[0]) from refusal
        except (SMTPException, OSError, ValueError) as cause:
            raise Unsent(_shown(cause)) from cause


class _Client(SMTP):
    """Closes its connection at once: after that, TLS would wait 30 s for the server's last word."""

    @override
    def close(self) -> None:
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        super().close()


@asynccontextmanager
async def connected(server: MailServer) -> AsyncIterator[SMTP]:
    """Yield a client that has signed in; its socket is closed when the block is left.

    Raises SMTPException, OSError or ValueError.
    """
    client = _Client(
        hostname=server.host,
        port=server.port,
        username=server.username or None,
        password=server.password or None,
        local_hostname=server.sender.rpartition("@")[2],
        timeout=server.timeout_s,
        use_tls=server.security == "tls",
        start_tls=server.security == "starttls",
        tls_context=server.context,
    )
    try:
        async with asyncio.timeout(server.timeout_s):
            await client.connect()
            yield client
        with suppress(SMTPException, OSError):  # accepted is accepted
            async with asyncio.timeout(FAREWELL_S):
                await client.quit()
    finally:
        client.close()
        await asyncio.sleep(0)  # the socket is closed in the next turn of the loop, if there is one


def message_of(email: Email, *, sender: str, name: str, at: UnixMs) -> EmailMessage:
    """Return *email* of *at* as it is handed to the mail server, from *sender*, called *name*.

    Raises    ValueError for a header that would hold more than its line
    """
    message = EmailMessage(policy=SMTP_POLICY)
    # Address objects, never texts: "a@example.org, b@example.org" would be two recipients.
    message["From"] = Address(display_name=name, addr_spec=ascii_address(sender))
    message["To"] = Address(addr_spec=ascii_address(email.recipient))
    message["Subject"] = email.subject
    message["Date"] = format_datetime(utc(at))
    message["Message-ID"] = email.message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: no out-of-office answers
    if email.pause is not None:  # RFC 8058
        message["List-Unsubscribe"] = f"<{email.pause}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(email.text, cte="7bit" if email.text.isascii() else "quoted-printable")
    return message


def ascii_address(address: str) -> str:
    """Return *address* with its domain in ASCII.  Raises ValueError for what is not one address."""
    if PLAIN.fullmatch(address):
        return address
    parts = validate_email(address, check_deliverability=False, allow_smtputf8=False)
    assert parts.ascii_email is not None, "without SMTPUTF8 there is no other"
    return parts.ascii_email


def _refusal_of(refusal: SMTPRecipientRefused) -> Unsent:
    is_final = refusal.code >= PERMANENT and not refusal.message.startswith(POLICY)
    return (EmailRefused if is_final else Unsent)(_shown(refusal))


def _shown(cause: Exception) -> str:
    if isinstance(cause, TimeoutError) and not str(cause):
        return "the mail server did not answer in time"
    text = (
        f"{cause.code} {cause.message}" if isinstance(cause, SMTPResponseException) else str(cause)
    )
    line = " ".join((text or type(cause).__name__).split())[:REASON_LENGTH_MAX]
    return line.encode(errors="replace").decode()  # bytes that are no UTF-8 came as half characters
