"""E-mails of several api processes at one database: none leaves twice."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from support.cluster.emails import expect_emails
from support.fakes.mail_server import MailRoom, mail_room_beside
from support.processes.api_process import api_process, settings
from support.scenes.postgres import dsn_in, url_in
from support.scenes.stores import PEPPER

EMAILS: Final = 2_000 if os.environ.get("STORM") == "full" else 300  # noqa: TID251 - only how many
PROCESSES: Final = 3


@pytest.fixture
def room() -> Iterator[MailRoom]:
    with mail_room_beside() as room:
        yield room


@pytest.mark.timeout(240)
def test_each_email_leaves_once_whichever_process_sends_it(tmp_path: Path, room: MailRoom) -> None:
    environment = settings(
        tmp_path,
        MINTSCOPE_STORE=url_in(tmp_path),
        MINTSCOPE_CREDITS__PEPPER=PEPPER.hex(),
        MINTSCOPE_API__ORIGIN="https://mintscope.example",
        MINTSCOPE_MAIL__DELIVERY="smtp",
        MINTSCOPE_MAIL__PORT=str(room.port),
        MINTSCOPE_MAIL__SECURITY="none",
        MINTSCOPE_MAIL__SENDER="no-reply@example.org",
    )
    with ExitStack() as stack:
        for number in range(PROCESSES):
            stack.enter_context(api_process(environment, tmp_path / f"log-{number}"))
        asyncio.run(expect_emails(dsn_in(tmp_path), room, EMAILS))
