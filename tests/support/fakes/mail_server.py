"""A real SMTP server on the loopback address, and a fake transport, for tests."""

import asyncio
import socket
import ssl
import threading
from asyncio.trsock import TransportSocket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, Final, Literal

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from typing_extensions import override

from mintscope.accounts.mail.delivery import EmailRefused, MailServer, Unsent
from mintscope.accounts.mail.email import Email

CERTIFICATE: Final = Path(__file__).with_suffix(".pem")
Security = Literal["starttls", "tls", "none"]


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(CERTIFICATE))


class SentEmails:
    """A Transport that stores e-mails in memory, or refuses them as a mail server would."""

    def __init__(self) -> None:
        self.arrived: list[Email] = []
        self._reply = "250 OK"

    def refuse(self, reply: str) -> None:
        """From now on, answer each e-mail with *reply*, a code and a text."""
        self._reply = reply

    async def send(self, email: Email) -> None:
        if self._reply.startswith("250"):
            self.arrived.append(email)
            return
        raise (EmailRefused if self._reply.startswith("5") else Unsent)(self._reply)


@dataclass
class MailRoom:
    """The commands that the server has received, and its answers.

    rcpt, data   the answers to these commands; an answer that is not 250 refuses the command
    accepted     a function that is called with each message before the server answers
    """

    rcpt: str = "250 OK"
    data: str = "250 OK"
    password: str | None = None
    accepted: Callable[[], None] = lambda: None
    senders: list[str | None] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    port: int = 0
    open: set["Served"] = field(default_factory=set)
    were_protected: list[bool] = field(default_factory=list)

    @property
    def messages(self) -> list[EmailMessage]:
        found = []
        for each in self.raw:
            message = message_from_bytes(each, policy=default)
            assert isinstance(message, EmailMessage)
            found.append(message)
        return found

    def server(self, security: Security = "none", **changes: Any) -> MailServer:
        """Return the settings that a client of this server needs."""
        known: dict[str, Any] = {
            "host": "127.0.0.1",
            "port": self.port,
            "security": security,
            "username": "",
            "password": "",
            "sender": "no-reply@example.org",
            "name": "mintscope",
            "timeout_s": 5.0,
            "context": trusting(),
        }
        return MailServer(**(known | changes))

    def authenticate(
        self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any
    ) -> AuthResult:
        assert isinstance(data, LoginPassword)
        reported = f"{data.login.decode()}:{data.password.decode()}"
        return AuthResult(success=reported == self.password, handled=False)


@dataclass
class Hooks:
    """The handlers of the server's commands, and no other methods: aiosmtpd inspects them all."""

    room: MailRoom

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if self.room.rcpt.startswith("250"):
            envelope.rcpt_tos.append(address)
        return self.room.rcpt

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        del server
        if self.room.data.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.room.raw.append(envelope.content)
            self.room.senders.append(envelope.mail_from)
            self.room.recipients.append(envelope.rcpt_tos)
            self.room.were_protected.append(session.ssl is not None)
            self.room.accepted()
        return self.room.data


class Served(SMTP):
    """A connection to the server that can be aborted."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.socket: TransportSocket = transport.get_extra_info("socket")
        self.event_handler.room.open.add(self)

    @override
    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.event_handler.room.open.discard(self)

    def abort(self) -> None:
        # `abort` has no effect on a TLS transport that was closed twice, so shut down the socket.
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)


async def end(server: asyncio.Server, room: MailRoom) -> None:
    """Stop serving, and wait until all sockets are closed, because the event loop may end next."""
    server.close()
    for each in [*room.open]:
        each.abort()
    async with asyncio.timeout(5.0):
        # Sockets of failed handshakes count too. Before Python 3.12, wait_closed does not wait at
        # all.
        while server._active_count:  # type: ignore[attr-defined]  # noqa: ASYNC110, SLF001 - see above
            await asyncio.sleep(0)


@asynccontextmanager
async def mail_room(security: Security = "none", **answers: Any) -> AsyncIterator[MailRoom]:
    """Serve SMTP on a free port, in this event loop; yield what the server receives."""
    room = MailRoom(**answers)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    loop = asyncio.get_running_loop()

    def protocol() -> SMTP:
        return Served(
            Hooks(room),
            hostname="mail.example.org",
            tls_context=context if security == "starttls" else None,
            require_starttls=security == "starttls",
            auth_required=room.password is not None,
            authenticator=room.authenticate,
            loop=loop,
        )

    server = await loop.create_server(
        protocol, "127.0.0.1", 0, ssl=context if security == "tls" else None
    )
    room.port = server.sockets[0].getsockname()[1]
    try:
        yield room
    finally:
        await end(server, room)


@contextmanager
def mail_room_beside(security: Security = "none", **answers: Any) -> Iterator[MailRoom]:
    """Serve SMTP on a free port, in a separate thread; yield what the server receives."""
    rooms: list[MailRoom] = []
    is_up, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with mail_room(security, **answers) as room:
            rooms.append(room)
            is_up.set()
            await asyncio.to_thread(is_over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(10)
    try:
        yield rooms[0]
    finally:
        is_over.set()
        thread.join()
