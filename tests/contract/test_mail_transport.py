"""The contract of every Transport of e-mails.  To test another engine, add it to `ENGINES`."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
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
    """A mail transport, the e-mails that arrived through it, and a way to make it refuse.

    refuse    makes the mail server answer with a given reply; None if there is no mail server
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


# The replies by which a server accepts an e-mail: to the connection, to each command, and to the
# text, which ends with ".".  HELO is sent if EHLO is refused.
ACCEPTING: Final[Mapping[str, Collection[int]]] = {
    "": {220},
    "EHLO": {250},
    "HELO": {250},
    "MAIL": {250},
    "RCPT": {250, 251},
    "DATA": {354},
    ".": {250},
}
LINES: Final = st.builds(
    b"%b%b%b\r\n".__mod__,
    st.tuples(
        st.sampled_from([b"220", b"250", b"251", b"354", b"451", b"550", b"999", b"1e5"]),
        st.sampled_from([b" ", b"-"]),
        st.binary(max_size=20).filter(lambda text: not {10, 13} & {*text}),
    ),
)


def code_of(reply: bytes) -> int | None:
    """Return the SMTP code of *reply*; None if *reply* is not one complete line of SMTP."""
    found = re.fullmatch(rb"(\d{3}) [^\r\n]*\r\n", reply)
    return int(found[1]) if found else None


@asynccontextmanager
async def answering(replies: Mapping[str, bytes]) -> AsyncIterator[int]:
    """Run an SMTP server that sends *replies* by command, else 250 OK; yield its port.

    After a reply that is no line of SMTP, the server closes the connection.
    """

    answers: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.append(asyncio.current_task())
        command = ""
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                reply = replies.get(command, b"250 OK\r\n")
                writer.write(reply)
                await writer.drain()
                if code_of(reply) is None:
                    break
                if command == "DATA" and code_of(reply) == 354:
                    await reader.readuntil(b"\r\n.\r\n")
                    command = "."
                else:
                    command = (await reader.readuntil(b"\r\n"))[:4].decode().upper()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.gather(*(each for each in answers if each))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    changed=st.dictionaries(
        st.sampled_from(sorted(ACCEPTING)), st.binary(max_size=30) | LINES, max_size=3
    )
)
def test_an_e_mail_is_sent_exactly_if_the_mail_server_accepts_each_step(
    changed: dict[str, bytes],
) -> None:
    usual = {step: b"%d OK\r\n" % min(codes) for step, codes in ACCEPTING.items()}
    replies = usual | changed

    async def is_sent() -> bool:
        async with answering(replies) as port:
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
            try:
                await SmtpTransport(server, ManualClock(NOW)).send(email())
            except Unsent as refusal:
                str(refusal).encode()  # the reason is stored, so it must be valid text
                return False
            return True

    codes = {step: code_of(reply) for step, reply in replies.items()}
    refused = {step for step, code in codes.items() if code not in ACCEPTING[step]}
    unneeded = "EHLO" if codes["EHLO"] is not None and "HELO" not in refused else "HELO"
    assert asyncio.run(is_sent()) == (not refused - {unneeded})
