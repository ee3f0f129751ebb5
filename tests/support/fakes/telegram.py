"""A server that follows the documentation of Telegram's Bot API.

Source    https://core.telegram.org/bots/api: making requests, getUpdates, sendMessage
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

TOKEN: Final = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
TEXT_LENGTH_MAX: Final = 4096
Answer = tuple[int, dict[str, Any]]


def refusal(status: int, description: str, **parameters: int) -> Answer:
    """Return an error in Telegram's format."""
    body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    return status, body | ({"parameters": parameters} if parameters else {})


@dataclass
class FakeTelegram:
    """Chats and updates.

    answers   the answers to the next messages to the bot's chats; when there are none, messages are
              sent
    """

    url: str = ""
    sent: list[tuple[int, str]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)

    def write(self, chat_id: int, text: str, **chat: str) -> None:
        """Add an update in which a chat sends *text* to the bot."""
        number = 1 + max((each["update_id"] for each in self.updates), default=870_000_000)
        message = {
            "message_id": 1,
            "date": 1,
            "chat": {"id": chat_id, "type": "private", **chat},
            "text": text,
        }
        self.updates.append({"update_id": number, "message": message})

    def getupdates(self, body: dict[str, Any]) -> Answer:
        """Delete the updates before the offset, which confirms them; return the others."""
        self.updates = [each for each in self.updates if each["update_id"] >= body["offset"]]
        return 200, {"ok": True, "result": self.updates[:100]}

    def sendmessage(self, body: dict[str, Any]) -> Answer:
        """Send a text of 1 to 4096 characters."""
        if not 1 <= len(body["text"]) <= TEXT_LENGTH_MAX:
            return refusal(400, "Bad Request: message is too long")
        if self.answers:
            return self.answers.pop(0)
        self.sent.append((body["chat_id"], body["text"]))
        result = {"message_id": len(self.sent), "date": 1, "chat": {"id": body["chat_id"]}}
        return 200, {"ok": True, "result": result}

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer a request; the case of method names does not matter."""
        _, bot, method = path.split("/")
        if bot != f"bot{TOKEN}":
            return refusal(401, "Unauthorized")
        methods: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "getupdates": self.getupdates,
            "sendmessage": self.sendmessage,
        }
        called = methods.get(method.lower())
        return refusal(404, "Not Found") if called is None else called(body)


@asynccontextmanager
async def telegram() -> AsyncIterator[FakeTelegram]:
    """Serve a FakeTelegram on the loopback address."""
    fake = FakeTelegram()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = head.split("\r\n")
        sizes = [line.split(":")[1] for line in lines if line.lower().startswith("content-length")]
        body = json.loads(await reader.readexactly(int(sizes[0])))
        status, answer = fake.answer(lines[0].split(" ")[1], body)
        text = json.dumps(answer).encode()
        phrase = HTTPStatus(status).phrase
        writer.write(
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/json\r\n"
            f"Connection: close\r\nContent-Length: {len(text)}\r\n\r\n".encode()
        )
        writer.write(text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    fake.url = f"http://{host}:{port}"
    try:
        yield fake
    finally:
        server.close()
