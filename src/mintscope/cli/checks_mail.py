"""Whether letters reach people, and lead them back here."""

from collections.abc import Iterator

from mintscope.cli.finding import Finding, ok, warn
from mintscope.config.sections import Config


def check_mail(config: Config) -> Iterator[Finding]:
    """Look at where letters go, and at the address their links begin with."""
    mail = config.mail
    if mail.delivery == "none":
        yield ok("mail: letters wait in the outbox; set mail.delivery to send them")
    elif mail.delivery == "page":
        yield ok("mail: letters are shown at /mailbox, to everyone on this machine")
    elif config.api.origin is None:
        yield warn(
            f"mail: the links in letters begin with http://{config.api.host}:{config.api.port}",
            "set api.origin to the address clients use",
        )
    else:
        yield ok(f"mail: sent by {mail.host}:{mail.port}, links begin with {config.api.origin}")
