"""The operator's Telegram bot, which answers chats and sends the firings of alerts.

Source    https://core.telegram.org/bots/api: getUpdates, sendMessage, ResponseParameters
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import httpx
import msgspec
import structlog

from mintscope.alerts.alerts import AlertWriter, ReadSymbols
from mintscope.alerts.telegram_chats import DueMessage, Sent, TelegramChats, TelegramMessages
from mintscope.kit.errors import ServiceUnavailable, Undecodable
from mintscope.kit.http_client import open_client, read_body

TIMEOUT_S: Final = 10.0
POLL_S: Final = 25  # seconds that Telegram waits for updates before it answers
SEND_S: Final = 1.0  # seconds between two batches of messages
REST_S: Final = 5.0  # seconds to wait after a failure, or while another process listens
AT_ONCE: Final = 20  # messages in a batch; Telegram accepts about 30 a second from a bot
RETRY_AFTER_S_MAX: Final = 3_600
REASON_LENGTH_MAX: Final = 120
UPDATES_MAX: Final = 10  # in an answer; one with a long text and many links has some 100 kilobytes
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024
LINKED: Final = (
    "Linked to the account {}. Its alerts with Telegram switched on are sent here."
    " Send /stop to end this."
)
GONE: Final = ("chat not found", "deactivated", "kicked")  # in errors about a chat that is gone
EXPIRED: Final = "This link is no longer valid. Create another one under Settings > Telegram."
STOPPED: Final = "This chat is no longer linked. Nothing more is sent here."
HELP: Final = "To get alerts here, open Settings > Telegram on the site and follow its link."

log = structlog.get_logger()


class Parameters(msgspec.Struct, frozen=True):
    """The part of an error of Telegram's Bot API that states a pause, or a new chat ID."""

    retry_after: int | None = None
    migrate_to_chat_id: int | None = None


NO_PARAMETERS: Final = Parameters()


class Chat(msgspec.Struct, frozen=True):
    """A chat: the type Chat of Telegram's Bot API."""

    id: int
    username: str | None = None
    title: str | None = None
    first_name: str | None = None

    @property
    def name(self) -> str:
        """The name of the chat as people see it."""
        return f"@{self.username}" if self.username else self.title or self.first_name or ""


class Message(msgspec.Struct, frozen=True):
    """A chat message: the type Message of Telegram's Bot API."""

    chat: Chat
    text: str = ""


NOTHING: Final = msgspec.Raw(b"null")


class Update(msgspec.Struct, frozen=True):
    """An update, such as a new message: the type Update of Telegram's Bot API.

    message   decoded when the bot answers the update
    """

    update_id: int
    message: msgspec.Raw = NOTHING


class Answer(msgspec.Struct, frozen=True):
    """A response of Telegram's Bot API."""

    ok: bool
    result: msgspec.Raw = NOTHING
    description: str = ""
    parameters: Parameters = NO_PARAMETERS


class Refused(Exception):
    """A call of Telegram's Bot API failed; the message has the reason, without the bot's token."""

    def __init__(self, why: str, status: int = 0, parameters: Parameters = NO_PARAMETERS) -> None:
        super().__init__(why[:REASON_LENGTH_MAX])
        self.status = status
        self.parameters = parameters


class Unreadable(Refused):
    """The answer of Telegram's Bot API is too long, or damaged."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class BotApi:
    """Calls methods of Telegram's Bot API at *url*."""

    url: str
    token: str

    async def send(self, chat_id: int, text: str) -> None:
        """Send a plain text to a chat.  Raises Refused."""
        body = {"chat_id": chat_id, "text": text, "link_preview_options": {"is_disabled": True}}
        await self._call("sendMessage", body, TIMEOUT_S)

    async def updates(
        self, offset: int, wait_s: int = POLL_S, limit: int = UPDATES_MAX
    ) -> list[Update]:
        """Return up to *limit* updates from *offset* on; wait up to *wait_s* seconds for one.

        Raises Refused.
        """
        body = {
            "offset": offset,
            "limit": limit,
            "timeout": wait_s,
            "allowed_updates": ["message"],
        }
        result = await self._call("getUpdates", body, wait_s + TIMEOUT_S)
        try:
            return msgspec.json.decode(result, type=list[Update])
        except msgspec.DecodeError as cause:
            raise Refused("expected updates; the answer holds something else") from cause

    async def _call(self, method: str, body: Mapping[str, Any], timeout_s: float) -> msgspec.Raw:
        try:
            async with (
                open_client(timeout_s=timeout_s) as http,
                http.stream("POST", f"{self.url}/bot{self.token}/{method}", json=body) as response,
            ):
                content = await read_body(response, bytes_max=ANSWER_BYTES_MAX)
            answer = msgspec.json.decode(content, type=Answer)
        except Undecodable as trouble:
            raise Unreadable(f"no answer: {type(trouble).__name__}") from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as trouble:
            # The error could contain the URL, which has the bot's token, so the error is left out.
            raise Refused(f"no answer: {type(trouble).__name__}") from None
        except msgspec.DecodeError:
            status = response.status_code
            raise Refused(f"expected JSON; the status was {status}", status) from None
        if not answer.ok:
            why = answer.description or "no reason was given"
            raise Refused(why, response.status_code, answer.parameters)
        return answer.result


@dataclass(kw_only=True, eq=False)
class TelegramBot:
    """Sends messages about firings, and answers messages to the bot.

    Only the process that evaluates alerts answers.
    """

    api: BotApi
    chats: TelegramChats
    messages: TelegramMessages
    writer: AlertWriter
    symbols: ReadSymbols
    _offset: int = field(default=0, init=False)

    async def send(self) -> None:
        """Send due messages until cancelled."""
        while True:
            try:
                await self.send_due()
            except Exception as trouble:  # an error must not stop the sending of later messages
                is_bug = not isinstance(trouble, ServiceUnavailable)
                log.warning(
                    "due Telegram messages could not be read", exc_info=is_bug, why=str(trouble)
                )
                await asyncio.sleep(REST_S)
            await asyncio.sleep(SEND_S)

    async def send_due(self) -> int:
        """Send a batch of due messages; return the number of messages that Telegram accepted."""
        mints = await self.messages.mints(AT_ONCE)
        if not mints:
            return 0
        due = await self.messages.lease(AT_ONCE, await self.symbols(mints))
        sent = await asyncio.gather(*map(self._send, due))
        await self.messages.note(sent)
        return sum(each.reason is None for each in sent)

    async def listen(self) -> None:
        """Answer messages to the bot until cancelled, while this process evaluates alerts."""
        while True:
            try:
                if (await self.writer.standing()).holder == self.writer.holder:
                    await self.answer()
                    continue  # without a pause, because `answer` waits for updates
            except Exception as trouble:  # after any error the bot tries again
                is_bug = not isinstance(trouble, ServiceUnavailable | Refused)
                log.warning(
                    "updates of Telegram could not be read", exc_info=is_bug, why=str(trouble)
                )
            await asyncio.sleep(REST_S)

    async def answer(self, wait_s: int = POLL_S) -> None:
        """Read the new messages of chats, and answer them.  Raises Refused, ServiceUnavailable."""
        try:
            updates = await self.api.updates(self._offset, wait_s)
        except Unreadable:  # several updates may be too long together; one alone is not
            updates = await self.api.updates(self._offset, wait_s, limit=1)
        if not updates:  # after a week without updates, Telegram's next number is random
            self._offset = 0
        for update in updates:
            try:
                message = msgspec.json.decode(update.message, type=Message | None)
                if message is not None:
                    await self._answer(message)
            except ServiceUnavailable:
                raise  # the update is then read again
            except Exception:  # a message that cannot be answered must not stop later ones
                log.exception("a Telegram message could not be answered")
            self._offset = update.update_id + 1

    async def _answer(self, message: Message) -> None:
        command, _, code = message.text.partition(" ")
        chat = message.chat
        match command.partition("@")[0]:
            case "/start" if code.strip():
                owner = await self.chats.link(code.strip(), chat.id, chat.name)
                text = EXPIRED if owner is None else LINKED.format(owner.email)
            case "/stop":
                await self.chats.stop(chat.id)
                text = STOPPED
            case "/start" | "/help":
                text = HELP
            case _:
                return
        try:
            await self.api.send(chat.id, text)
        except Refused as refused:
            log.info("a Telegram message was not accepted", reason=str(refused))

    async def _send(self, message: DueMessage) -> Sent:
        try:
            await self.api.send(message.chat.chat_id, message.text)
        except Refused as refused:
            parameters = refused.parameters
            log.info(
                "a Telegram message was not accepted",
                signal=message.signal.signal_id,
                reason=str(refused),
            )
            after_s = parameters.retry_after
            return Sent(
                message,
                reason=str(refused),
                is_blocked=_is_final(refused),
                retry_after_s=None if after_s is None else min(max(1, after_s), RETRY_AFTER_S_MAX),
                new_chat_id=parameters.migrate_to_chat_id,
            )
        return Sent(message)


def _is_final(refused: Refused) -> bool:
    """Return whether the chat has blocked the bot or was deleted, so that a retry is useless."""
    if refused.status == HTTPStatus.FORBIDDEN:
        return True
    why = str(refused).lower()
    return refused.status == HTTPStatus.BAD_REQUEST and any(each in why for each in GONE)
