"""E-mail in one process: its templates, its transport and its delivery, as configured."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from mintscope.base.clock import Clock
from mintscope.core.accounts.mail.email import Draft, Email
from mintscope.core.accounts.mail.outbox import Outbox
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.edges.mail.delivery import Delivery, PageTransport, Transport
from mintscope.edges.mail.templates import EmailWithoutLink, compose
from mintscope.edges.mail.transport import MailServer, SmtpTransport
from mintscope.edges.web.mailbox import SentEmail
from mintscope.shell.config.sections import MailConfig

NAME: Final = "mintscope"


class Templates:
    """Writes the e-mails of this installation, for the delivery and for the mailbox page."""

    def __init__(self, secrets: AccountSecrets, *, origin: str) -> None:
        self._compose = partial(compose, origin=origin, secrets=secrets, name=NAME)

    def __call__(self, draft: Draft) -> Email:
        """Write the e-mail of *draft*.  Raises EmailWithoutLink."""
        return self._compose(draft)


class ShownOutbox:
    """The outbox as the page of a demo shows it; implements Mailbox of `web.mailbox`."""

    def __init__(self, outbox: Outbox, write: Templates) -> None:
        self._outbox = outbox
        self._write = write

    async def recent(self, *, limit: int) -> Sequence[SentEmail]:
        """Return the newest e-mails, newest first, without those whose link is gone."""
        posted = []
        for draft in await self._outbox.recent(limit=limit):
            with suppress(EmailWithoutLink):
                posted.append(SentEmail(draft.email_id, draft.written_at, self._write(draft)))
        return posted


def make_mailbox(mail: MailConfig, outbox: Outbox, write: Templates) -> ShownOutbox | None:
    """Return the mailbox page's e-mails, None unless the delivery is "page"."""
    return ShownOutbox(outbox, write) if mail.delivery == "page" else None


def make_delivery(mail: MailConfig, *, outbox: Outbox, write: Templates, clock: Clock) -> Delivery:
    """Return what delivers the e-mails in *outbox*; with delivery "none", what counts them."""
    transport: Transport | None
    match mail.delivery:
        case "smtp":
            transport = SmtpTransport(mail_server_of(mail), clock)
        case "page":
            transport = PageTransport()
        case "none":
            transport = None
    return Delivery(outbox=outbox, transport=transport, compose=write, clock=clock)


def mail_server_of(mail: MailConfig) -> MailServer:
    """Return the mail server that *mail* names."""
    return MailServer(
        host=mail.host,
        port=mail.port,
        security=mail.security,
        username=mail.username,
        password="" if mail.password is None else mail.password.get_secret_value(),
        sender=mail.sender,
        name=NAME,
        timeout_s=mail.timeout_s,
    )
