"""Delivery of e-mails from the outbox to a mail server.

If a process is killed after it has sent an e-mail and before it has recorded this, the e-mail is
sent again, with the same Message-ID.
"""

import asyncio
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP as SMTP_POLICY
from email.utils import format_datetime
from typing import Final, Literal, Protocol

import structlog
from aiosmtplib import (
    SMTP,
    SMTPException,
    SMTPRecipientRefused,
    SMTPRecipientsRefused,
    SMTPResponseException,
)
from typing_extensions import override

from mintscope.accounts.mail.email import Draft, Email
from mintscope.accounts.mail.outbox import GIVE_UP_MS, Outbox, retry_at
from mintscope.accounts.mail.templates import EmailWithoutLink
from mintscope.kit.clock import Clock
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.metrics import EMAILS, EMAILS_WAITING
from mintscope.kit.primitives import UnixMs
from mintscope.kit.time import HOUR_S, utc

REASON_LENGTH_MAX: Final = 200
FAREWELL_S: Final = 1.0  # the most seconds to wait for the answer to QUIT
PERMANENT: Final = 500  # replies from this code on are permanent (RFC 5321, 4.2.1)
# An ASCII address without quotes, which needs no conversion.
PLAIN: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+")
POLICY: Final = "5.7."  # RFC 3463: a policy refuses the sender, perhaps only for a time


class Unsent(Exception):
    """The mail server did not accept the e-mail; the message has the reason, for the operator."""


class EmailRefused(Unsent):
    """The e-mail is given up: its recipient is invalid, or the server refuses it permanently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """The mail server that e-mails are sent to.

    security    "tls": TLS from the first byte; "starttls": STARTTLS before the sign-in and the
                e-mail; "none": without TLS
    username    the name for signing in; empty: do not sign in
    sender      the address that e-mails are sent from
    name        display name of the sender
    timeout_s   the most seconds for an e-mail, from connecting to its acceptance
    context     the trusted certificates; None: the certificates that the machine trusts
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
    """Sends e-mails, each over a separate connection."""

    def __init__(self, server: MailServer, clock: Clock) -> None:
        self._server = server
        self._clock = clock

    async def send(self, email: Email) -> None:
        """Send *email*.  Raises EmailRefused, or Unsent if a later attempt can succeed."""
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
    """An SMTP client that aborts its connection to close it; a TLS shutdown can take 30 s."""

    @override
    def close(self) -> None:
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        super().close()


@asynccontextmanager
async def connected(server: MailServer) -> AsyncIterator[SMTP]:
    """Yield a client that is connected to *server*; close its socket at the end of the block.

    The client has signed in if *server* has a user name.  The connection, the sign-in and the block
    together may take at most `server.timeout_s` seconds.
    Raises SMTPException, OSError (which includes TimeoutError) or ValueError.
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
        with suppress(SMTPException, OSError):  # the block has already succeeded
            async with asyncio.timeout(FAREWELL_S):
                await client.quit()
    finally:
        client.close()
        # Without another iteration of the event loop, the socket would stay open.
        await asyncio.sleep(0)


def message_of(email: Email, *, sender: str, name: str, at: UnixMs) -> EmailMessage:
    """Return *email* as a message dated *at*, from *sender* with the display name *name*.

    Raises    ValueError if an address is invalid, or if a header contains a line break
    """
    message = EmailMessage(policy=SMTP_POLICY)
    # Use address objects, not texts: "a@example.org, b@example.org" would be two recipients.
    message["From"] = Address(display_name=name, addr_spec=ascii_address(sender))
    message["To"] = Address(addr_spec=ascii_address(email.recipient))
    message["Subject"] = email.subject
    message["Date"] = format_datetime(utc(at))
    message["Message-ID"] = email.message_id
    message["Auto-Submitted"] = "auto-generated"  # RFC 3834: prevents out-of-office replies
    if email.pause is not None:  # RFC 8058
        message["List-Unsubscribe"] = f"<{email.pause}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(email.text, cte="7bit" if email.text.isascii() else "quoted-printable")
    return message


def ascii_address(address: str) -> str:
    """Return *address* with its domain in ASCII.  Raises ValueError unless it is one address."""
    if PLAIN.fullmatch(address):
        return address
    from email_validator import validate_email  # noqa: PLC0415 - loads in 20 ms, rarely needed

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
    return line.encode(errors="replace").decode()  # surrogates stand for invalid UTF-8 bytes


POLL_S: Final = 0.5  # the pause between two searches for due e-mails while none is due
COUNT_S: Final = 60.0  # seconds between two counts of waiting e-mails while none is sent
TROUBLE_S: Final = 5.0  # the pause after an error
NO_DELIVERY: Final = "mail.delivery is none"
PER_HOUR_MAX: Final = 3_000
AT_ONCE: Final = 4  # the most e-mails leased and sent at once, so that all end within the lease

log = structlog.get_logger()


class Transport(Protocol):
    """A way to send e-mails."""

    async def send(self, email: Email) -> None:
        """Send *email*.  Raises EmailRefused, or Unsent if a later attempt can succeed."""


class PageTransport:
    """A transport that sends nothing, because a page shows the outbox instead."""

    async def send(self, email: Email) -> None:
        """Do nothing: the page `/mailbox` shows the e-mails."""


@dataclass(kw_only=True, eq=False, repr=False)
class Delivery:
    """Sends the e-mails of the outbox that are due.

    transport     sends e-mails; None: e-mails stay in the outbox, and are given up after three days
    compose       returns the e-mail of a draft
    per_hour_max  the most attempts of this process in any hour; further e-mails wait
    """

    outbox: Outbox
    transport: Transport | None
    compose: Callable[[Draft], Email]
    clock: Clock
    per_hour_max: int = PER_HOUR_MAX
    _tried_at_s: deque[float] = field(default_factory=deque, init=False)
    _counted_at_s: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Deliver e-mails until cancelled; normally each is sent within a second."""
        while True:
            try:
                count = await self.round()
            except Exception as trouble:  # an error must not stop the delivery of later e-mails
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning("due e-mails could not be read", exc_info=is_bug, why=str(trouble))
                await asyncio.sleep(TROUBLE_S)
            else:
                if not count:
                    await asyncio.sleep(POLL_S)

    async def round(self) -> int:
        """Try to deliver some due e-mails; return their number.  Raises ServiceUnavailable."""
        now = self.clock.now()
        now_s = self.clock.monotonic_s()
        room = 0 if self.transport is None else self._room(now_s)
        taken = await self.outbox.lease(now, limit=room) if room else []
        self._tried_at_s += [now_s] * len(taken)
        # return_exceptions, so that all deliveries end before an error is raised.
        outcomes = await asyncio.gather(*map(self._deliver, taken), return_exceptions=True)
        if taken or self._counted_at_s is None or now_s - self._counted_at_s >= COUNT_S:
            await self._count()
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return len(taken)

    def _room(self, now_s: float) -> int:
        """Return the number of e-mails that may be sent now, at most AT_ONCE."""
        tried = self._tried_at_s
        while tried and now_s - tried[0] >= HOUR_S:
            tried.popleft()
        return min(AT_ONCE, self.per_hour_max - len(tried))

    async def _count(self) -> None:
        """Update the metric of unsent e-mails; without a transport, give up old e-mails first."""
        if self.transport is None:
            now = self.clock.now()
            before = UnixMs(now - GIVE_UP_MS)
            if count := await self.outbox.give_up(now, written_before=before, reason=NO_DELIVERY):
                EMAILS.labels("given_up").inc(count)
                log.warning("e-mails were given up", count=count, reason=NO_DELIVERY)
        EMAILS_WAITING.set(await self.outbox.count_waiting())
        self._counted_at_s = self.clock.monotonic_s()

    async def _deliver(self, draft: Draft) -> None:
        assert self.transport is not None
        try:
            await self.transport.send(self.compose(draft))
        except (EmailRefused, EmailWithoutLink) as failure:
            await self._fail(draft, failure, None)
        except Unsent as failure:
            await self._fail(draft, failure, retry_at(draft, self.clock.now()))
        else:
            await self.outbox.sent(draft.email_id, self.clock.now())
            EMAILS.labels("sent").inc()

    async def _fail(self, draft: Draft, failure: Exception, again_at: UnixMs | None) -> None:
        now = self.clock.now()
        reason = str(failure)
        await self.outbox.failed(draft.email_id, now, reason=reason, retry_at=again_at)
        about = {"email": draft.email_id, "kind": str(draft.kind), "reason": reason}
        if again_at is None:
            EMAILS.labels("given_up").inc()
            log.error("an e-mail was given up", **about)
        else:
            EMAILS.labels("failed").inc()
            log.warning("an e-mail was not sent", **about, retry_s=(again_at - now) // 1000)
