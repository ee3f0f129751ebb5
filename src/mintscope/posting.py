"""Letters in one process: who delivers them, as configured."""

from functools import partial
from typing import Final

from mintscope.accounts.letter import Draft, Letter
from mintscope.accounts.outbox import Outbox
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.wording import compose
from mintscope.clock import Clock
from mintscope.config.sections import MailConfig
from mintscope.mail.postman import PagePost, Post, Postman
from mintscope.mail.smtp import MailServer, SmtpPost

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
