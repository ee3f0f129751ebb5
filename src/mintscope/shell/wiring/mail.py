"""Letters in one process: who delivers them, as configured."""

from functools import partial
from typing import Final

from mintscope.base.clock import Clock
from mintscope.core.accounts.mail.email import Draft, Letter
from mintscope.core.accounts.mail.outbox import Outbox
from mintscope.core.accounts.secrets import AccountSecrets
from mintscope.edges.mail.delivery import PagePost, Post, Postman
from mintscope.edges.mail.templates import compose
from mintscope.edges.mail.transport import MailServer, SmtpPost
from mintscope.shell.config.sections import MailConfig

NAME: Final = "mintscope"


class Writer:
    """Writes letters as this installation does; for the postman and for the mailbox page."""

    def __init__(self, secrets: AccountSecrets, *, origin: str) -> None:
        self._compose = partial(compose, origin=origin, secrets=secrets, name=NAME)

    def __call__(self, draft: Draft) -> Letter:
        """Write the letter of *draft*.  Raises LetterWithoutLink."""
        return self._compose(draft)


def make_postman(mail: MailConfig, *, outbox: Outbox, write: Writer, clock: Clock) -> Postman:
    """Return who delivers what is in *outbox*; with delivery "none", who counts it."""
    post: Post | None
    match mail.delivery:
        case "smtp":
            post = SmtpPost(mail_server_of(mail), clock)
        case "page":
            post = PagePost()
        case "none":
            post = None
    return Postman(outbox=outbox, post=post, compose=write, clock=clock)


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
