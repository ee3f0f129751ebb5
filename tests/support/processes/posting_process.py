"""Delivers the e-mails of an outbox until a test kills it; the arguments are `FILE PORT`."""

import asyncio
import sys
from functools import partial
from pathlib import Path

from mintscope.accounts.mail.delivery import Delivery, MailServer, SmtpTransport
from mintscope.accounts.mail.outbox import Outbox
from mintscope.accounts.mail.templates import compose
from mintscope.kit.clock import SystemClock
from support.scenes.people_service import SECRETS
from support.scenes.stores import money_in


async def main(path: Path, port: int) -> None:
    server = MailServer(
        host="127.0.0.1",
        port=port,
        security="none",
        username="",
        password="",
        sender="no-reply@example.org",
        name="mintscope",
        timeout_s=5.0,
    )
    clock = SystemClock()
    async with money_in(path.parent, clock=clock) as money:
        await Delivery(
            outbox=Outbox(money.accounts),
            transport=SmtpTransport(server, clock),
            compose=partial(
                compose, origin="https://example.org", secrets=SECRETS, name="mintscope"
            ),
            clock=clock,
        ).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
