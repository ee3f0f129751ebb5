"""The contract of every Transport of e-mails.  Add an engine to `ENGINES`."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.delivery import (
    EmailRefused,
    MailServer,
    PageTransport,
    SmtpTransport,
    Transport,
    Unsent,
)
from mintscope.accounts.mail.email import Email
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from support.fakes.mail_server import SentEmails, mail_room
from support.fakes.raw_server import raw_server

NOW: Final = UnixMs(1_700_000_000_000)
# The e-mails that arrived, as (recipient, subject, text, Message-ID); None if nothing is sent.
Arrived = Callable[[], list[tuple[str, str, str, str]] | None]


def email(number: int = 0) -> Email:
    return Email(
        recipient=EmailAddress(f"reader{number}@example.org"),
        subject="Choose a new password",
        text=f"Hello,\n\nhttps://example.org/reset/{'x' * 90}\n.\n-- \n{number}\n",
        message_id=f"<{number}@example.org>",
    )


def reported(sent: Email) -> tuple[str, str, str, str]:
    return sent.recipient, sent.subject, sent.text, sent.message_id


class Engine:
    """A transport, the e-mails that arrived through it, and a switch to refuse them.

    refuse    makes the mail server send this reply; None if there is no mail server
    """

    def __init__(
        self, transport: Transport, arrived: Arrived, refuse: Callable[[str], None] | None
    ) -> None:
        self.transport, self.arrived, self.refuse = transport, arrived, refuse


@asynccontextmanager
async def smtp() -> AsyncIterator[Engine]:
    async with mail_room() as room:

        def arrived() -> list[tuple[str, str, str, str]]:
            return [
                (each["To"], each["Subject"], _text(each.get_content()), each["Message-ID"])
                for each in room.messages
            ]

        def refuse(reply: str) -> None:
            room.rcpt = reply

        yield Engine(SmtpTransport(room.server(), ManualClock(NOW)), arrived, refuse)


@asynccontextmanager
async def page() -> AsyncIterator[Engine]:
    yield Engine(PageTransport(), lambda: None, None)


@asynccontextmanager
async def kept() -> AsyncIterator[Engine]:
    sent = SentEmails()
    yield Engine(sent, lambda: [reported(each) for each in sent.arrived], sent.refuse)


def _text(content: str) -> str:
    return content.replace("\r\n", "\n")


ENGINES: Final[dict[str, Callable[[], AbstractAsyncContextManager[Engine]]]] = {
    "smtp": smtp,
    "page": page,
    "kept": kept,
}
REFUSING: Final = [name for name in ENGINES if name != "page"]


@pytest.mark.parametrize("name", ENGINES)
async def test_an_e_mail_arrives_unchanged_each_time_it_is_sent(name: str) -> None:
    async with ENGINES[name]() as engine:
        for _ in range(2):
            await engine.transport.send(email())

        assert engine.arrived() in ([reported(email())] * 2, None)


@pytest.mark.parametrize("name", ENGINES)
async def test_several_e_mails_can_be_sent_at_once(name: str) -> None:
    async with ENGINES[name]() as engine:
        await asyncio.gather(*(engine.transport.send(email(number)) for number in range(4)))

        arrived = engine.arrived()
        assert arrived is None or sorted(arrived) == [
            reported(email(number)) for number in range(4)
        ]


@pytest.mark.parametrize("name", REFUSING)
@pytest.mark.parametrize(
    ("reply", "kind"),
    [("550 5.1.1 No such user", EmailRefused), ("451 4.7.1 Try again later", Unsent)],
)
async def test_a_final_refusal_raises_email_refused_and_a_temporary_one_unsent(
    name: str, reply: str, kind: type[Unsent]
) -> None:
    async with ENGINES[name]() as engine:
        assert engine.refuse is not None
        engine.refuse(reply)
        with pytest.raises(Unsent, match=reply[:3]) as refusal:
            await engine.transport.send(email())

        assert type(refusal.value) is kind
        assert engine.arrived() == []
        engine.refuse("250 OK")
        await engine.transport.send(email())
        assert engine.arrived() == [reported(email())]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    said=st.lists(
        st.binary(max_size=30)
        | st.builds(
            b"%b %b\r\n".__mod__,
            st.tuples(
                st.sampled_from([b"220", b"250", b"250-", b"354", b"554", b"999", b"1e5"]),
                st.binary(max_size=20),
            ),
        ),
        max_size=6,
    )
)
def test_an_e_mail_is_sent_or_unsent_after_any_replies_of_a_mail_server(said: list[bytes]) -> None:
    async def run() -> None:
        async with raw_server(lambda: said, says_first=True) as url:
            server = MailServer(
                host="127.0.0.1",
                port=int(url.rpartition(":")[2].rstrip("/")),
                security="none",
                username="",
                password="",
                sender="no-reply@example.org",
                name="mintscope",
                timeout_s=5.0,
            )
            try:
                await SmtpTransport(server, ManualClock(NOW)).send(email())
            except Unsent as refusal:
                reason = str(refusal)
                reason.encode()  # the reason is stored, so it must be valid text

    asyncio.run(run())
