"""E-mails over a real SMTP server: accepted, refused or deferred, with and without TLS."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import pytest
from aiosmtplib import SMTPException

from mintscope.accounts.email_address import EmailAddress
from mintscope.accounts.mail.delivery import (
    EmailRefused,
    MailServer,
    SmtpTransport,
    Unsent,
    connected,
)
from mintscope.accounts.mail.email import Email
from mintscope.kit.clock import ManualClock
from mintscope.kit.primitives import UnixMs
from support.fakes.mail_server import MailRoom, Security, mail_room, mail_room_beside

NOW: Final = UnixMs(1_700_000_000_000)


def email(recipient: str = "alice@example.org", **changes: Any) -> Email:
    known: dict[str, Any] = {
        "recipient": EmailAddress(recipient),
        "subject": "Choose a new password",
        "text": "Hello,\n\nhttps://example.org/reset/" + "x" * 90 + "\n.\n-- \nmintscope\n",
        "message_id": "<0123456789abcdef@example.org>",
    }
    return Email(**(known | changes))


async def send(server: MailServer, what: Email | None = None) -> None:
    await SmtpTransport(server, ManualClock(NOW)).send(what or email())


async def test_an_email_arrives_as_it_was_written() -> None:
    async with mail_room() as room:
        await send(room.server())

    (message,) = room.messages
    assert (room.senders, room.recipients) == (["no-reply@example.org"], [["alice@example.org"]])
    assert message["From"] == "mintscope <no-reply@example.org>"
    assert message["To"] == "alice@example.org"
    assert message["Subject"] == "Choose a new password"
    assert message["Message-ID"] == "<0123456789abcdef@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    assert parsedate_to_datetime(message["Date"]).timestamp() * 1000 == NOW
    assert message.get_content_type() == "text/plain"
    assert message.get_content().replace("\r\n", "\n") == email().text
    assert b"https://example.org/reset/" + b"x" * 90 + b"\r\n" in room.raw[0]  # in one piece


async def test_the_connection_is_protected_before_the_password_is_sent() -> None:
    async with mail_room("starttls", password="delivery:s3cret") as room:
        await send(room.server("starttls", username="delivery", password="s3cret"))

    assert room.were_protected == [True]


async def test_the_connection_can_be_protected_from_its_first_byte() -> None:
    async with mail_room("tls") as room:
        await send(room.server("tls"))

    assert len(room.raw) == 1


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_server_without_a_trusted_certificate_gets_no_email(security: Security) -> None:
    async with mail_room(security) as room:
        with pytest.raises(Unsent, match=r"(?i)certificate"):
            await send(room.server(security, context=None))

    assert room.raw == []


async def test_a_server_without_starttls_gets_no_email() -> None:
    async with mail_room() as room:
        with pytest.raises(Unsent, match="STARTTLS"):
            await send(room.server("starttls"))

    assert room.raw == []


async def test_a_wrong_password_of_the_server_is_not_a_final_failure() -> None:
    async with mail_room("starttls", password="delivery:s3cret") as room:
        with pytest.raises(Unsent, match="535") as failure:
            await send(room.server("starttls", username="delivery", password="wrong"))

    assert not isinstance(failure.value, EmailRefused)


@pytest.mark.parametrize(
    ("rcpt", "data", "kind"),
    [
        ("550 5.1.1 No such user", "", EmailRefused),
        ("553 Mailbox name not allowed", "", EmailRefused),
        ("550 5.7.1 Relaying denied", "", Unsent),  # the server refuses the sender, not the address
        ("451 4.7.1 Try again later", "", Unsent),
        ("250 OK", "452 4.2.2 Mailbox full", Unsent),
        ("250 OK", "554 5.7.1 Looks like spam", Unsent),
    ],
)
async def test_only_an_unknown_or_invalid_address_is_a_final_failure(
    rcpt: str, data: str, kind: type[Unsent]
) -> None:
    async with mail_room(rcpt=rcpt, data=data) as room:
        with pytest.raises(Unsent) as failure:
            await send(room.server())

    assert type(failure.value) is kind
    assert (data or rcpt)[:3] in str(failure.value)


async def test_a_server_that_is_down_is_not_a_final_failure() -> None:
    async with mail_room() as room:
        pass

    with pytest.raises(Unsent) as failure:
        await send(room.server())

    assert not isinstance(failure.value, EmailRefused)


@asynccontextmanager
async def hanging(greeting: bytes) -> AsyncIterator[int]:
    """Serve a port on which each client gets only *greeting*; yield the port."""

    async def hang(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        await over.wait()
        writer.close()

    over = asyncio.Event()
    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        over.set()
        server.close()


@pytest.mark.parametrize("greeting", [b"", b"220 here\r\n", b"220 here\r\n250 go on\r\n"])
async def test_a_server_that_hangs_is_abandoned_after_the_timeout(greeting: bytes) -> None:
    async with mail_room() as room, hanging(greeting) as port:
        with pytest.raises(Unsent) as failure:
            await send(room.server(port=port, timeout_s=0.2))

    assert str(failure.value)
    assert not isinstance(failure.value, EmailRefused)


async def test_an_unknown_mail_server_is_not_a_final_failure() -> None:
    async with mail_room() as room:
        with pytest.raises(Unsent) as failure:
            await send(room.server(host="mail.invalid", timeout_s=2.0))

    assert not isinstance(failure.value, EmailRefused)


@pytest.mark.parametrize(
    "changes",
    [
        {"recipient": "alice@example.org\r\nBcc: eve@example.org"},
        {"recipient": "alice@example.org, eve@example.org"},
        {"recipient": "alice"},
        {"recipient": ""},
        {"subject": "Hello\r\nBcc: eve@example.org"},
        {"message_id": "<1@example.org>\r\nBcc: eve@example.org"},
    ],
)
async def test_an_email_with_an_injected_header_or_address_is_refused(
    changes: dict[str, Any],
) -> None:
    async with mail_room() as room:
        with pytest.raises(EmailRefused):
            await send(room.server(), email(**changes))

    assert room.raw == []


async def test_lines_of_the_text_are_neither_headers_nor_the_end_of_the_email() -> None:
    text = "Bcc: eve@example.org\n\n.\nMAIL FROM:<eve@example.org>\n"
    async with mail_room() as room:
        await send(room.server(), email(text=text))

    (message,) = room.messages
    assert "Bcc" not in message
    assert room.recipients == [["alice@example.org"]]
    assert message.get_content().replace("\r\n", "\n") == text


async def test_a_domain_in_unicode_is_sent_in_punycode() -> None:
    async with mail_room() as room:
        await send(room.server(), email("alice@bücher.example"))

    assert room.recipients == [["alice@xn--bcher-kva.example"]]


async def test_another_program_at_the_port_gets_only_the_first_message_of_a_tls_handshake() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with mail_room() as room:
            with pytest.raises(Unsent) as failure:
                await send(
                    room.server(
                        "tls", port=port, timeout_s=0.2, username="delivery", password="s3cret"
                    )
                )
        reached = received(taken)

    assert not isinstance(failure.value, EmailRefused)
    assert reached[:1] == b"\x16", "a record of the handshake (RFC 8446, 5.1)"
    assert len(reached) == 5 + int.from_bytes(reached[3:5]), "a single record"
    assert reached[5] == 1, "ClientHello"


def received(listening: socket.socket) -> bytes:
    """Return all bytes that the first client of *listening* sends until it disconnects."""
    listening.settimeout(5.0)
    connection, _ = listening.accept()
    with connection:
        connection.settimeout(5.0)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
async def test_a_connection_is_closed_when_its_block_is_left(security: Security) -> None:
    async with mail_room(security) as room:
        async with connected(room.server(security)) as client:
            ours = client.get_transport_info("socket")
            await client.noop()

        assert ours.fileno() == -1


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
def test_a_failed_sign_in_leaves_no_open_socket_after_its_event_loop_ends(
    security: Security,
) -> None:
    async def sign_in(room: MailRoom) -> None:
        wrong = room.server(security, username="delivery", password="wrong")
        with pytest.raises((SMTPException, OSError)):
            async with connected(wrong):
                pass

    before = open_sockets()
    with mail_room_beside(security, password="delivery:s3cret") as room:
        asyncio.run(sign_in(room))

    assert open_sockets() <= before


def open_sockets() -> set[str]:
    """Return the names that the kernel gives to the open sockets of this process."""
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(each.readlink()))
    return {name for name in found if name.startswith("socket:")}
