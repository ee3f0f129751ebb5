"""Alerts on Telegram, against a server that answers as the Bot API's documentation says."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override
from watching import EMAIL, MINT, Scene, opened, trade

from mintscope.accounts.factor_rows import User
from mintscope.accounts.rows import AccountRows
from mintscope.accounts.session import NewSession, Session
from mintscope.accounts.sessions import end_since
from mintscope.alerts.alert import (
    Alert,
    AlertDenied,
    AlertRule,
    Fires,
    FiringTelegram,
    SignalId,
    TelegramState,
)
from mintscope.alerts.alerts import AlertBounds, no_symbols
from mintscope.alerts.conditions import Field, SignalKind
from mintscope.alerts.evaluator import AlertEvaluator
from mintscope.alerts.telegram_bot import (
    ANSWER_BYTES_MAX,
    EXPIRED,
    HELP,
    LINKED,
    STOPPED,
    BotApi,
    Refused,
    TelegramBot,
)
from mintscope.alerts.telegram_chats import (
    CODE_S,
    PAUSE_MS,
    Sent,
    TelegramChats,
    TelegramMessages,
)
from mintscope.kit.credentials import CredentialHash
from mintscope.kit.time import DAY_MS, SECOND_MS
from support.scenes.account_stores import ENGINES
from support.scenes.service import NOW

TOKEN: Final = "123456:ABC-DEF1234ghIkl-zyx57W2v1u123ew11"
TEXT_LENGTH_MAX: Final = 4096
Answer = tuple[int, dict[str, Any]]


def refusal(status: int, description: str, **parameters: int) -> Answer:
    """Return an error response in the format of the Bot API."""
    body: dict[str, Any] = {"ok": False, "error_code": status, "description": description}
    return status, body | ({"parameters": parameters} if parameters else {})


@dataclass
class FakeTelegram:
    """A server that follows https://core.telegram.org/bots/api, with its chats and updates.

    answers   the answers to the next messages to the bot's chats; if the list is empty, messages
              are sent
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
        return 200, {"ok": True, "result": self.updates[: body.get("limit", 100)]}

    def sendmessage(self, body: dict[str, Any]) -> Answer:
        """Accept a text of 1 to 4096 characters, unless the next of *answers* refuses it."""
        if not 1 <= len(body["text"]) <= TEXT_LENGTH_MAX:
            return refusal(400, "Bad Request: message is too long")
        if self.answers:
            return self.answers.pop(0)
        self.sent.append((body["chat_id"], body["text"]))
        result = {"message_id": len(self.sent), "date": 1, "chat": {"id": body["chat_id"]}}
        return 200, {"ok": True, "result": result}

    def answer(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer a request to the bot API as Telegram does; method names are case-insensitive."""
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


CHAT: Final = 7_000_000_001
ORIGIN: Final = "https://mintscope.example"


@dataclass
class Linked:
    scene: Scene
    fake: FakeTelegram
    bot: TelegramBot
    watcher: AlertEvaluator
    session: Session

    async def code(self) -> str:
        """Return the code in the link that the Telegram settings show."""
        address = await self.scene.signals.telegram.address(self.session)
        link, _, code = address.partition("?start=")
        assert link == "https://t.me/mintscope_bot"
        assert len(code) <= 64  # deep links: A-Z, a-z, 0-9, _ and - only
        assert set(code) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
        return code

    async def says(self, chat_id: int, text: str) -> str:
        """Send *text* from a chat to the bot; return the answer of the bot."""
        self.fake.write(chat_id, text, username="alice")
        await self.bot.answer(0)
        assert self.fake.sent[-1][0] == chat_id
        return self.fake.sent[-1][1]

    async def crosses(self) -> None:
        """Let the price go below the level of the alert, and then above it."""
        for price in (9.0, 11.0):
            trade(self.scene.log, price)
            await self.watcher.round()

    async def states(self, signal_id: SignalId) -> list[FiringTelegram]:
        """Return the Telegram delivery of each firing of an alert, oldest first."""
        fired = await self.scene.fired(signal_id)
        return [each.telegram for each in fired if each.telegram is not None]


@pytest.fixture(params=ENGINES)
async def linked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Linked]:
    async with telegram() as fake, opened(request.param, tmp_path) as scene:
        bounds = AlertBounds(telegram_bot="mintscope_bot")
        scene.signals = replace(scene.signals, bounds=bounds)
        watcher = scene.watcher()
        signals = scene.signals
        bot = TelegramBot(
            api=BotApi(url=fake.url, token=TOKEN),
            chats=signals.telegram,
            messages=TelegramMessages(
                store=scene.store, secrets=signals.secrets, clock=scene.clock, origin=ORIGIN
            ),
            writer=watcher.writer,
            symbols=no_symbols,
        )
        yield Linked(scene, fake, bot, watcher, await begin_session(scene))


async def begin_session(scene: Scene) -> Session:
    new = NewSession(CredentialHash(scene.signals.entropy(32)), "192.0.2.1", "a browser")

    def begin(rows: AccountRows) -> Session | None:
        return rows.sessions.get(rows.sessions.insert(scene.user_id, new, scene.clock.now()))

    session = await scene.store.transact(begin)
    assert session is not None
    return session


async def test_a_chat_is_linked_by_a_code_and_unlinked_by_stop(linked: Linked) -> None:
    scene = linked.scene
    clock = linked.scene.clock
    asked = AlertRule(
        name="up", mint=MINT, field=Field("price.usd"), kind=SignalKind.ABOVE, by_telegram=True
    )
    before = await scene.signals.make(scene.user_id, asked)
    code = await linked.code()
    forged = code[:-1] + ("A" if code[-1] != "A" else "B")
    answers = [await linked.says(CHAT, f"/start {each}") for each in (forged, "1-2", "x" * 64)]
    helped = await linked.says(CHAT, "/start")
    clock.advance(CODE_S * SECOND_MS)
    late = await linked.says(CHAT, f"/start {code}")
    code = await linked.code()
    good = await linked.says(CHAT, f"/start {code}")
    again = await linked.says(CHAT, f"/start {code}")  # a restart reads an update twice
    stolen = await linked.says(CHAT + 1, f"/start {code}")
    chat = await scene.signals.telegram.find(scene.user_id)
    other = await linked.says(CHAT + 1, "/stop")
    stayed = await scene.signals.telegram.find(scene.user_id)
    stopped = await linked.says(CHAT, "/stop@mintscope_bot")

    assert before is AlertDenied.UNLINKED
    assert [*answers, late, stolen] == [EXPIRED] * 5
    assert helped == HELP
    assert [good, again] == [LINKED.format(EMAIL)] * 2
    assert (other, stopped) == (STOPPED, STOPPED)
    assert chat is not None
    assert (chat.chat_id, chat.name) == (CHAT, "@alice")
    assert stayed == chat
    assert await scene.signals.telegram.find(scene.user_id) is None
    events = await scene.store.read(lambda rows: rows.events.newest(None, 9))
    assert [each.action for _, each in events] == ["unlinked Telegram", "linked Telegram"]


async def test_an_unlink_and_the_end_of_a_session_void_earlier_codes(linked: Linked) -> None:
    scene = linked.scene
    user_id = linked.scene.user_id
    first = await linked.code()
    await linked.says(CHAT, f"/start {first}")
    second = await linked.code()
    await scene.signals.telegram.unlink(user_id)
    spent = [await linked.says(CHAT + 1, f"/start {code}") for code in (first, second)]
    linked.session = await begin_session(scene)
    third = await linked.code()
    good = await linked.says(CHAT, f"/start {third}")
    fourth = await linked.code()
    now = scene.clock.now()
    await scene.store.transact(lambda rows: end_since(rows, user_id, now, now))
    linked.session = await begin_session(scene)  # SQLite gives it the number of the ended session
    stolen = [await linked.says(CHAT + 1, f"/start {code}") for code in (third, fourth)]

    assert spent == stolen == [EXPIRED] * 2
    assert good == LINKED.format(EMAIL)
    assert await scene.signals.telegram.find(user_id) is None
    events = await scene.store.read(lambda rows: rows.events.newest(None, 9))
    assert [each.action for _, each in events] == ["unlinked Telegram", "linked Telegram"] * 2


async def test_firings_are_gathered_sent_once_and_note_why_they_wait(linked: Linked) -> None:
    scene = linked.scene
    fake = linked.fake
    bot = linked.bot
    clock = linked.scene.clock
    await linked.says(CHAT, f"/start {await linked.code()}")
    fake.sent.clear()
    signal_id = await scene.make(by_telegram=True, fires=Fires.EACH, message="Sell half.")
    await linked.watcher.round()
    await linked.crosses()
    first = await bot.send_due(), [*fake.sent]
    await linked.crosses()
    await linked.crosses()
    early = await bot.send_due(), len(fake.sent)
    clock.advance(PAUSE_MS)
    fake.answers = [refusal(429, "Too Many Requests: retry after 8", retry_after=8)]
    refused = await bot.send_due(), await linked.states(signal_id)
    clock.advance(8 * SECOND_MS - 1)
    resting = await bot.send_due()
    clock.advance(1)
    moved = refusal(400, "Bad Request: group chat was upgraded", migrate_to_chat_id=-100_123)
    fake.answers = [moved]
    await bot.send_due()
    clock.advance(30 * SECOND_MS)
    gathered = await bot.send_due(), fake.sent[-1]
    states = await linked.states(signal_id)

    number = int(signal_id)
    proof = scene.signals.secrets.pause_proof(number)
    ((chat_id, text),) = first[1]
    assert (first[0], chat_id) == (1, CHAT)
    assert text.startswith(f"up: {MINT[:4]}...{MINT[-4:]} rose above $10.00 (now $11.00)\n\n")
    assert "\n\nSell half.\n\n" in text
    assert text.endswith(
        f"Token: {ORIGIN}/token/{MINT}\nAlert: {ORIGIN}/alerts/{number}\n"
        f"Pause: {ORIGIN}/pause-alert/{number}.{proof}"
    )
    assert early == (0, 1)
    assert refused[0] == resting == 0
    assert [each.state for each in refused[1]] == ["sent", "waiting", "waiting"]
    assert refused[1][1].note == "Too Many Requests: retry after 8"
    assert (gathered[0], gathered[1][0]) == (1, -100_123)
    assert "rose above $10.00 (now $11.00), 2 times\n" in gathered[1][1]
    assert [each.state for each in states] == ["sent"] * 3
    assert states[2].sent_at == clock.now()
    assert states[2].note is None


async def test_a_chat_that_blocks_the_bot_gets_no_more_messages(linked: Linked) -> None:
    scene = linked.scene
    fake = linked.fake
    bot = linked.bot
    clock = linked.scene.clock
    await linked.says(CHAT, f"/start {await linked.code()}")
    signal_id = await scene.make(by_telegram=True, fires=Fires.EACH)
    await linked.watcher.round()
    await linked.crosses()
    fake.answers = [refusal(403, "Forbidden: bot was blocked by the user")]
    await bot.send_due()
    await linked.crosses()
    clock.advance(PAUSE_MS)
    await bot.send_due()
    states = await linked.states(signal_id)
    chat = await scene.signals.telegram.find(scene.user_id)

    assert chat is not None
    assert chat.blocked_at == clock.now() - PAUSE_MS
    assert [(each.state, each.note) for each in states] == [
        (TelegramState.NOT_SENT, "Forbidden: bot was blocked by the user"),
        (TelegramState.NOT_SENT, "no Telegram chat is linked"),
    ]
    proof = scene.signals.secrets.pause_proof(signal_id)
    paused = await scene.signals.pause(f"{signal_id}.{proof}")  # the link works without a chat
    assert isinstance(paused, Alert)
    assert not paused.rule.is_active


async def test_a_chat_gets_one_message_a_round_and_pauses_if_telegram_demands_it(
    linked: Linked,
) -> None:
    scene = linked.scene
    bot = linked.bot
    clock = linked.scene.clock
    await linked.says(CHAT, f"/start {await linked.code()}")
    many = [await scene.make(by_telegram=True, fires=Fires.EACH) for _ in range(3)]
    await linked.watcher.round()
    await linked.crosses()
    leased = await bot.messages.lease(2, {})
    (message,) = leased
    signal_id = message.signal.signal_id
    await linked.crosses()
    await scene.signals.test(scene.user_id, signal_id)
    others = await bot.messages.lease(2, {})
    refused = Sent(message, reason="Too Many Requests", retry_after_s=90)
    await bot.messages.note([refused])
    clock.advance(PAUSE_MS)
    await linked.crosses()
    await scene.signals.test(scene.user_id, signal_id)
    clock.advance(30 * SECOND_MS - 1)
    early = await bot.messages.lease(9, {})
    clock.advance(1)
    late = await bot.messages.lease(9, {})

    assert [each.signal.signal_id for each in leased] == many[:1]
    assert [each.signal.signal_id for each in others] == many[2:]
    assert len(early) == 1
    assert early[0].signal.signal_id != signal_id
    assert [each.signal.signal_id for each in late] == [signal_id]


async def test_waiting_messages_are_dropped_if_the_alert_is_paused_or_telegram_off(
    linked: Linked,
) -> None:
    scene = linked.scene
    bot = linked.bot
    await linked.says(CHAT, f"/start {await linked.code()}")
    numbers = [await scene.make(by_telegram=True, fires=Fires.EACH) for _ in range(2)]
    await linked.watcher.round()
    await linked.crosses()
    await scene.signals.change(
        scene.user_id, numbers[0], lambda rule: replace(rule, is_active=False)
    )
    await scene.signals.test(scene.user_id, numbers[0])
    await scene.signals.change(
        scene.user_id, numbers[1], lambda rule: replace(rule, by_telegram=False)
    )
    sent = await bot.send_due()
    paused, off = [await linked.states(number) for number in numbers]

    assert sent == 1  # the test
    assert [(each.state, each.note) for each in paused] == [
        ("not_sent", "the alert was paused"),
        ("sent", None),
    ]
    assert [each.note for each in off] == ["Telegram was switched off for the alert"]


async def test_updates_with_lower_numbers_are_read_and_only_lost_chats_are_blocked(
    linked: Linked,
) -> None:
    scene = linked.scene
    fake = linked.fake
    bot = linked.bot
    clock = linked.scene.clock
    await linked.says(CHAT, "/help")
    await bot.answer(0)
    answered = await linked.says(
        CHAT, f"/start {await linked.code()}"
    )  # its number is lower, as may happen after a week
    signal_id = await scene.make(by_telegram=True, fires=Fires.EACH)
    await linked.watcher.round()
    await linked.crosses()
    reasons = [
        "Bad Request: message is too long",
        "Bad Request: chat not found",
        "Bad Request: user is deactivated",
        "Bad Request: the bot was kicked from the group chat",
    ]
    blocked = []
    for reason in reasons:
        await scene.signals.test(scene.user_id, signal_id)
        fake.answers = [refusal(400, reason)]
        await bot.send_due()
        chat = await scene.signals.telegram.find(scene.user_id)
        blocked.append(chat is not None and chat.blocked_at is not None)
        linked.fake.answers = []
        await linked.says(CHAT, f"/start {await linked.code()}")
        clock.advance(PAUSE_MS)
    await scene.store.transact(lambda rows: rows.chats.block(scene.user_id, CHAT + 1, NOW))
    kept = await scene.signals.telegram.find(scene.user_id)

    assert answered == LINKED.format(EMAIL)
    assert blocked == [False, True, True, True]
    assert kept is not None
    assert kept.blocked_at is None


async def test_notes_about_failures_never_contain_the_token_of_the_bot(linked: Linked) -> None:
    """The Bot API cannot be reached; the firing is given up after a day."""
    scene = linked.scene
    clock = linked.scene.clock
    await linked.says(CHAT, f"/start {await linked.code()}")
    signal_id = await scene.make(by_telegram=True, fires=Fires.EACH)
    await linked.watcher.round()
    await linked.crosses()
    bot = replace(linked.bot, api=BotApi(url="http://127.0.0.1:9", token=TOKEN))
    await bot.send_due()
    (waiting,) = await linked.states(signal_id)
    clock.advance(DAY_MS + 1)
    await bot.send_due()
    (late,) = await linked.states(signal_id)

    assert waiting == FiringTelegram(state=TelegramState.WAITING, note="no answer: ConnectError")
    assert late == FiringTelegram(
        state=TelegramState.NOT_SENT, note="it was not accepted within 24 hours"
    )
    assert TOKEN not in repr(bot)


class BrokenChats(TelegramChats):
    """Telegram chats whose `link` raises an unexpected error."""

    @override
    async def link(self, code: str, chat_id: int, name: str) -> User | None:
        raise ValueError("a bug")


async def test_a_message_that_cannot_be_answered_does_not_stop_others(linked: Linked) -> None:
    chats = linked.scene.signals.telegram
    linked.bot.chats = BrokenChats(
        store=chats.store, secrets=chats.secrets, clock=chats.clock, bot=chats.bot
    )
    linked.fake.write(5, "/start 1-2-3", username="mallory")
    linked.fake.write(6, "/help", username="alice")

    await linked.bot.answer(0)
    await linked.bot.answer(0)

    assert [chat_id for chat_id, _ in linked.fake.sent] == [6]


@pytest.mark.parametrize(("count", "kilobytes"), [(100, 60), (10, 450)])
async def test_long_messages_do_not_stop_others(linked: Linked, count: int, kilobytes: int) -> None:
    """Together, the messages are longer than the longest answer that the service reads."""
    link = {"type": "text_link", "offset": 0, "length": 1, "url": f"https://x.org/{'x' * 1_000}"}
    for _ in range(count):
        linked.fake.write(5, "a message that was forwarded", username="mallory")
        linked.fake.updates[-1]["message"]["entities"] = [link] * kilobytes
    linked.fake.write(6, "/help", username="alice")
    assert len(json.dumps(linked.fake.updates)) > ANSWER_BYTES_MAX

    for _ in range(count):
        await linked.bot.answer(0)

    assert linked.fake.sent == [(6, HELP)]


async def test_a_message_that_cannot_be_read_does_not_stop_others(linked: Linked) -> None:
    linked.fake.write(5, "/help", username="mallory")
    linked.fake.updates[-1]["message"]["chat"]["id"] = "no number"
    linked.fake.write(6, "/help", username="alice")

    await linked.bot.answer(0)
    await linked.bot.answer(0)

    assert [chat_id for chat_id, _ in linked.fake.sent] == [6]


async def test_an_answer_that_is_too_long_is_refused() -> None:
    async with telegram() as fake:
        fake.answers.append(refusal(400, "x" * ANSWER_BYTES_MAX))
        with pytest.raises(Refused, match="no answer: BodyTooLong"):
            await BotApi(url=fake.url, token=TOKEN).send(5, "hello")
