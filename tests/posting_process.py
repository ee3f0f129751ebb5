"""A process that delivers what is in an outbox, for tests that kill it: `FILE PORT`."""

import asyncio
import sys
from functools import partial
from pathlib import Path

from desks import SECRETS
from mintscope.accounts.wording import compose
from mintscope.clock import SystemClock
from mintscope.mail.postman import Postman
from mintscope.mail.smtp import MailServer, SmtpPost
from mintscope.storage.sqlite.account_file import AccountFile
from mintscope.storage.sqlite.outbox import SqliteOutbox


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
    await Postman(
        outbox=SqliteOutbox(AccountFile(path)),
        post=SmtpPost(server, clock),
        compose=partial(compose, origin="https://example.org", secrets=SECRETS, name="mintscope"),
        clock=clock,
    ).run()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
