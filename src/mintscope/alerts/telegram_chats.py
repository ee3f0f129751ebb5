"""Telegram chats of accounts, and the messages to them.

A person's settings show a code.  The chat that sends the code to the bot is linked to the person's
account.  A code is valid for 15 minutes; it becomes invalid earlier if its session ends, or if a
chat is linked to the account or unlinked.

Between two messages of an alert there is a pause; firings in the pause are sent in one message.  A
test is sent without a pause, unless firings wait.  A crash can cause a message to be sent twice,
but never to be lost.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mintscope.accounts.factor_rows import User
from mintscope.accounts.rows import AccountRows, AccountStore
from mintscope.accounts.secrets import AccountSecrets
from mintscope.accounts.session import Session, SessionId
from mintscope.accounts.sessions import LINKED, UNLINKED, unlink_telegram
from mintscope.alerts.alert import (
    Alert,
    Firing,
    FiringId,
    FiringKind,
    Gathered,
    TelegramChat,
    TelegramState,
)
from mintscope.alerts.emails import Symbols, message_facts
from mintscope.kit.audit import SERVICE, EventFilter, UserId, user_actor
from mintscope.kit.clock import Clock
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.time import DAY_MS, MINUTE_MS, MINUTE_S, SECOND_MS

CODE_S: Final = 15 * MINUTE_S
NUMBER_DIGITS_MAX: Final = 18  # such numbers fit in 64 bits
NAME_LENGTH_MAX: Final = 64
PAUSE_MS: Final = MINUTE_MS  # the least time between two messages of an alert
LEASE_MS: Final = MINUTE_MS  # longer than any request to Telegram takes
RETRY_MS: Final = 30 * SECOND_MS
GATHERED_MAX: Final = 1_000  # the most firings in one message
TEXT_LENGTH_MAX: Final = 4_096  # the limit of sendMessage in the Bot API
NO_CHAT: Final = "no Telegram chat is linked"
SWITCHED_OFF: Final = "Telegram was switched off for the alert"
PAUSED: Final = "the alert was paused"
TOO_LATE: Final = "it was not accepted within 24 hours"


class DueMessage(NamedTuple):
    """A Telegram message to send now, and the firings that it reports."""

    signal: Alert
    chat: TelegramChat
    firings: Sequence[FiringId]
    text: str


class Sent(NamedTuple):
    """The outcome of a Telegram message.

    reason          the reason why Telegram did not accept the message; None: accepted
    is_blocked      whether the chat accepts no further messages of the bot
    retry_after_s   the pause that Telegram requests, in seconds; None: it requests none
    new_chat_id     the new ID of the chat; None: it did not change
    """

    message: DueMessage
    reason: str | None = None
    is_blocked: bool = False
    retry_after_s: int | None = None
    new_chat_id: int | None = None


def wait_for_telegram(rows: AccountRows, signal: Alert, at: UnixMs) -> None:
    """Schedule the message about waiting firings of *signal*, unless it is already scheduled.

    The message is due at once, or PAUSE_MS after the last message of the alert.
    """
    if signal.telegram_due_at is not None:
        return
    last = signal.telegram_at
    is_early = last is not None and last <= at < last + PAUSE_MS
    due_at = UnixMs(last + PAUSE_MS) if is_early and last is not None else at
    rows.signals.update(signal.signal_id, telegram_due_at=due_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramChats:
    """Links Telegram chats to accounts.  Every operation may raise ServiceUnavailable.

    bot   the user name of the operator's Telegram bot; "": there is no bot
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    bot: str

    async def find(self, user_id: UserId) -> TelegramChat | None:
        """Return the chat of a user; None if the user has none."""
        return await self.store.read(lambda rows: rows.chats.chat(user_id))

    async def address(self, session: Session) -> str:
        """Return a link that opens the bot in Telegram, and sends the bot a code for *session*."""
        until_s = self.clock.now() // SECOND_MS + CODE_S
        bound = await self.store.read(lambda rows: _bound(rows, session, until_s))
        proof = self.secrets.telegram_proof(bound)
        return f"https://t.me/{self.bot}?start={session.session_id}-{until_s}-{proof}"

    async def link(self, code: str, chat_id: int, name: str) -> User | None:
        """Link a chat to the account of the *code* that the chat sent; return the account's user.

        Return None if the session of the code has ended, or if the code is wrong, expired or used.
        For a chat that is already linked to the account and accepts messages, only the session is
        checked.
        """
        number, _, rest = code.partition("-")
        until, _, proof = rest.partition("-")
        if not all(each.isascii() and each.isdigit() for each in (number, until)):
            return None
        if max(len(number), len(until)) > NUMBER_DIGITS_MAX:
            return None
        session_id, until_s, now = SessionId(int(number)), int(until), self.clock.now()

        def link(rows: AccountRows) -> User | None:
            session = rows.sessions.get(session_id)
            if session is None:
                return None
            user_id = session.user.user_id
            before = rows.chats.chat(user_id)
            if before is not None and before.chat_id == chat_id and before.blocked_at is None:
                return session.user
            is_good = self.secrets.is_telegram_proof(_bound(rows, session, until_s), proof)
            if not is_good or now >= until_s * SECOND_MS:
                return None
            rows.chats.link(
                TelegramChat(user_id=user_id, chat_id=chat_id, name=_shown(name), linked_at=now)
            )
            rows.events.note(now, user_actor(user_id), LINKED, f"user:{user_id}")
            return session.user

        return await self.store.transact(link)

    async def unlink(self, user_id: UserId) -> None:
        """Unlink the chat of a user."""
        now, actor = self.clock.now(), user_actor(user_id)
        await self.store.transact(lambda rows: unlink_telegram(rows, user_id, actor, now))

    async def stop(self, chat_id: int) -> None:
        """Unlink a chat from every account, because the chat requested it."""
        now = self.clock.now()

        def stop(rows: AccountRows) -> None:
            for user_id in rows.chats.users_of(chat_id):
                unlink_telegram(rows, user_id, SERVICE, now)

        await self.store.transact(stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramMessages:
    """Leases Telegram messages about firings to senders, and records their outcomes.

    origin   the origin of the links in messages
    Every method raises ServiceUnavailable if the database fails.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    origin: str

    async def mints(self, limit: int) -> Collection[Mint]:
        """Return the tokens of up to *limit* alerts with a due message."""
        now = self.clock.now()
        due = await self.store.read(lambda rows: rows.signals.telegram_due(now, limit))
        return {each.rule.mint for each in due}

    async def lease(self, limit: int, symbols: Symbols) -> Sequence[DueMessage]:
        """Lease up to *limit* due messages, one per chat; mark firings that must not be sent."""
        now = self.clock.now()
        return await self.store.transact(lambda rows: self._lease(rows, limit, symbols, now))

    async def note(self, sent: Sequence[Sent]) -> None:
        """Store the outcomes of Telegram messages, whether accepted or not."""
        now = self.clock.now()

        def note(rows: AccountRows) -> None:
            for each in sent:
                _note(rows, each, now)

        await self.store.transact(note)

    def _lease(
        self, rows: AccountRows, limit: int, symbols: Symbols, now: UnixMs
    ) -> Sequence[DueMessage]:
        found: dict[int, DueMessage] = {}
        for signal in rows.signals.telegram_due(now, limit):
            chat = rows.chats.chat(signal.user_id)
            firings = _sendable(rows, signal, chat, now)
            due_at = None
            if chat is None or not firings:
                if rows.firings.for_telegram(signal.signal_id, 1):  # not all were read
                    due_at = UnixMs(now + SECOND_MS)
            elif chat.chat_id in found:  # the next message of this chat waits
                due_at = UnixMs(now + SECOND_MS)
            else:
                due_at = UnixMs(now + LEASE_MS)
                numbers = [each.firing_id for each in firings]
                text = self._text(signal, firings, symbols)
                found[chat.chat_id] = DueMessage(signal, chat, numbers, text)
            rows.signals.update(signal.signal_id, telegram_due_at=due_at)
        return list(found.values())

    def _text(self, signal: Alert, firings: Sequence[Firing], symbols: Symbols) -> str:
        gathered = Gathered(len(firings), firings[0].firing_id, firings)
        facts = message_facts(signal, gathered, symbols)
        number = signal.signal_id
        links = [
            f"Token: {self.origin}/token/{signal.rule.mint}",
            f"Alert: {self.origin}/alerts/{number}",
            f"Pause: {self.origin}/pause-alert/{number}.{self.secrets.pause_proof(number)}",
        ]
        parts = [facts["title"], facts["lines"], facts["message"].strip(), "\n".join(links)]
        return "\n\n".join(part for part in parts if part)[:TEXT_LENGTH_MAX]


def _note(rows: AccountRows, sent: Sent, now: UnixMs) -> None:
    chat = sent.message.chat
    number = sent.message.signal.signal_id
    if sent.is_blocked:
        rows.chats.block(chat.user_id, chat.chat_id, now)
    if sent.new_chat_id is not None:
        rows.chats.move(chat.chat_id, sent.new_chat_id)
    is_accepted = sent.reason is None
    state = TelegramState.NOT_SENT if sent.is_blocked else TelegramState.WAITING
    rows.firings.mark_telegram(
        sent.message.firings,
        TelegramState.SENT if is_accepted else state,
        sent_at=now if is_accepted else None,
        note=sent.reason,
    )
    if rows.signals.get(number) is None:
        return
    if is_accepted:
        rows.signals.update(number, telegram_at=now)
    pause_ms = PAUSE_MS if is_accepted else RETRY_MS
    if sent.retry_after_s is not None:
        pause_ms = sent.retry_after_s * SECOND_MS
    is_left = bool(rows.firings.for_telegram(number, 1))
    rows.signals.update(number, telegram_due_at=UnixMs(now + pause_ms) if is_left else None)


def _sendable(
    rows: AccountRows, signal: Alert, chat: TelegramChat | None, now: UnixMs
) -> Sequence[Firing]:
    """Return the waiting firings of *signal* that can be sent; mark the others as not sent.

    At most GATHERED_MAX firings are read, the oldest.
    """
    firings = rows.firings.for_telegram(signal.signal_id, GATHERED_MAX)
    by_reason: defaultdict[str | None, list[Firing]] = defaultdict(list)
    for each in firings:
        by_reason[_why_not(signal, chat, each, now)].append(each)
    sendable = by_reason.pop(None, [])
    for reason, unsent in by_reason.items():
        numbers = [each.firing_id for each in unsent]
        rows.firings.mark_telegram(numbers, TelegramState.NOT_SENT, note=reason)
    return sendable


def _why_not(signal: Alert, chat: TelegramChat | None, firing: Firing, now: UnixMs) -> str | None:
    """Return the reason not to send *firing*; None if it can be sent."""
    if chat is None or chat.blocked_at is not None:
        return NO_CHAT
    if not signal.rule.by_telegram:
        return SWITCHED_OFF
    is_paused = not signal.rule.is_active and signal.ended_at is None
    if is_paused and firing.fired.kind is not FiringKind.TEST:
        return PAUSED
    return TOO_LATE if now - firing.fired.fired_at > DAY_MS else None


def _bound(rows: AccountRows, session: Session, until_s: int) -> Sequence[int]:
    """Return the numbers from which the proof in a code is derived.

    They include the newest event of linking or unlinking, so that earlier codes become invalid; and
    the user and the start of the session, because numbers of sessions can recur.
    """
    user_id = session.user.user_id
    wanted = [EventFilter(f"user:{user_id}", action) for action in (LINKED, UNLINKED)]
    changed = [number for each in wanted for number, _ in rows.events.newest(None, 1, each)]
    return session.session_id, user_id, session.created_at, until_s, max(changed, default=0)


def _shown(name: str) -> str:
    return "".join(filter(str.isprintable, name))[:NAME_LENGTH_MAX] or "a chat"
