"""SQL tables of alerts, their firings and the progress of their evaluation, and Telegram chats."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, astuple
from itertools import islice
from typing import Final

from typing_extensions import Unpack, override

from mintscope.accounts.mail.store import SqlEmailRows
from mintscope.accounts.store import NO_END, Columns, Table
from mintscope.alerts.alert import (
    Alert,
    AlertChanges,
    AlertRule,
    AlertStanding,
    Crowd,
    EmailState,
    FiredHour,
    Firing,
    FiringEmail,
    FiringId,
    FiringTelegram,
    Gathered,
    HeldFirings,
    MintBase,
    NewFiring,
    SignalId,
    TelegramChat,
    TelegramState,
)
from mintscope.kit.audit import UserId
from mintscope.kit.primitives import Mint, UnixMs
from mintscope.kit.sql.database import Batch, Database, ahead_ms, delete_part, marks

EMAILS: Final = SqlEmailRows.NAME
NONE_HELD: Final = HeldFirings(frozenset(), "")
NUMBERS_MAX: Final = 500  # the most alerts in one statement
IS_WAITING: Final = "due_at IS NOT NULL AND delivered_at IS NULL AND given_up_at IS NULL"
MANY: Final = Batch(
    "signal_firing",
    {  # the fields of NewFiring in their order, then the fields of the deliveries
        "signal": "bigint",
        "kind": "text",
        "seq": "bigint",
        "slot": "bigint",
        "time": "bigint",
        "value": "double precision",
        "direction": "text",
        "reference": "double precision",
        "fired_at": "bigint",
        "due_at": "bigint",
        "email": "text",
        "telegram": "text",
        "email_note": "text",
        "telegram_note": "text",
        "given_up_at": "bigint",
        "reason": "text",
    },
)
FIRST_WAITING: Final = f"""
SELECT coalesce(
    (SELECT min(id) FROM signal_firing WHERE {IS_WAITING}),
    (SELECT coalesce(max(id), 0) + 1 FROM signal_firing))
"""  # noqa: S608  a constant
GIVE_UP: Final = f"""
UPDATE signal_firing SET given_up_at = ?, reason = ? WHERE signal = ? AND {IS_WAITING}
"""  # noqa: S608  a constant
OLD: Final = "SELECT id FROM signal_firing WHERE fired_at < ? ORDER BY fired_at LIMIT ?"
PURGE: Final = "DELETE FROM signal_firing WHERE id = ?"

MARK_EMAIL: Final = """
UPDATE signal_firing SET email = ?, email_id = ?, email_note = ?
 WHERE signal = ? AND email = 'waiting' AND id BETWEEN ? AND ?
"""
GATHERED: Final = """
SELECT count(*), coalesce(min(id), 0) FROM signal_firing WHERE signal = ? AND email = 'waiting'
"""
# Notes about limits, of `emails.hour_note` and `emails.write_email`, begin with `limit of `.
REFUSED: Final = """
SELECT count(*) FROM signal_firing JOIN signal ON signal.id = signal_firing.signal
 WHERE signal."user" = ? AND signal_firing.fired_at > ?
   AND (signal_firing.email = 'not_sent'
            AND substr(signal_firing.email_note, 1, 9) = 'limit of '
        OR signal_firing.telegram = 'not_sent'
            AND substr(signal_firing.telegram_note, 1, 9) = 'limit of '
        OR signal_firing.given_up_at IS NOT NULL
            AND substr(signal_firing.reason, 1, 9) = 'limit of ')
"""
MARK_TELEGRAM: Final = """
UPDATE signal_firing SET telegram = ?, telegram_sent_at = ?, telegram_note = ? WHERE id = ?
"""

NEXT_SIGNALS: Final = "SELECT id FROM signal WHERE id > ? ORDER BY id LIMIT ?"
# The most firings of an alert that one call of `trim` deletes.  `trim` is called hourly for each
# alert, so it can take several hours until a lowered limit is applied.
TRIMMED_MAX: Final = 2_000
TRIM: Final = f"""
DELETE FROM signal_firing WHERE id IN (
    SELECT id FROM signal_firing
     WHERE signal = ?1 AND id <= (
           SELECT id FROM signal_firing WHERE signal = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)
     ORDER BY id LIMIT {TRIMMED_MAX})
"""  # noqa: S608  a constant


class SqlFiringRows(Table[FiringId, Firing]):
    """Reads and writes the firings of alerts, inside one transaction."""

    NAME = "signal_firing"
    COLUMNS = Columns(
        Firing,
        "signal_firing",
        firing_id="signal_firing.id",
        fired=Columns(NewFiring, "signal_firing", signal_id="signal_firing.signal"),
        email=Columns(
            FiringEmail,
            EMAILS,
            state="signal_firing.email",
            note="signal_firing.email_note",
        ),
        telegram=Columns(
            FiringTelegram,
            "signal_firing",
            state="signal_firing.telegram",
            sent_at="signal_firing.telegram_sent_at",
            note="signal_firing.telegram_note",
        ),
    )
    SOURCE = f"signal_firing LEFT JOIN {EMAILS} ON {EMAILS}.id = signal_firing.email_id WHERE"

    def insert(
        self,
        firing: NewFiring,
        due_at: UnixMs | None,
        email: EmailState | None = None,
        telegram: TelegramState | None = None,
    ) -> FiringId:
        """Add a firing; return its ID.

        due_at            the time when its webhook is due; None: it is not sent by webhook
        email, telegram   the states of its deliveries; None: it is not sent in this way
        """
        columns = asdict(firing)
        how = {"due_at": self._due(due_at), "email": email, "telegram": telegram}
        return self._add({"signal": columns.pop("signal_id"), **columns, **how})

    def insert_many(
        self,
        firings: Sequence[tuple[NewFiring, UnixMs | None]],
        by_email: Collection[SignalId] = (),
        by_telegram: Collection[SignalId] = (),
        held: HeldFirings = NONE_HELD,
    ) -> None:
        """Add firings in order, each with the time when its webhook is due; None: no webhook.

        by_email      the alerts whose firings are sent by e-mail
        by_telegram   the alerts whose firings are sent to Telegram
        held          the firings that are not sent in any way
        """
        new_rows = []
        for place, (firing, due_at) in enumerate(firings):
            note = held.note if place in held.places else None
            email = EmailState.WAITING if note is None else EmailState.NOT_SENT
            telegram = TelegramState.WAITING if note is None else TelegramState.NOT_SENT
            is_webhook = due_at is not None
            new_rows.append(
                (
                    *astuple(firing),
                    self._due(due_at),
                    email.value if firing.signal_id in by_email else None,
                    telegram.value if firing.signal_id in by_telegram else None,
                    note if firing.signal_id in by_email else None,
                    note if firing.signal_id in by_telegram else None,
                    firing.fired_at if note is not None and is_webhook else None,
                    note if is_webhook else None,
                )
            )
        self._db.executemany(MANY, new_rows)

    def for_email(self, signal_id: SignalId, limit: int) -> Gathered | None:
        """Return the firings of an alert that wait for an e-mail; None if no firing waits.

        limit   the maximum number of firings to read; the newest are read, and all are counted
        """
        count, first = self._db.execute(GATHERED, (signal_id,)).get
        if not count:
            return None
        condition = "signal = ? AND email = 'waiting' ORDER BY signal_firing.id DESC LIMIT ?"
        newest = self._all(condition, signal_id, limit)[::-1]
        return Gathered(count, FiringId(first), newest)

    def mark_email(
        self,
        signal_id: SignalId,
        firings: Gathered,
        state: EmailState,
        *,
        email_id: int | None = None,
        note: str | None = None,
    ) -> None:
        """Store the state of the e-mail about *firings*.

        email_id   the row of the e-mail; None if none was written
        note       the reason why no e-mail was written
        """
        last = firings.newest[-1].firing_id
        values = (str(state), email_id, note, signal_id, firings.first, last)
        self._db.execute(MARK_EMAIL, values)

    def mark_telegram(
        self,
        firings: Collection[FiringId],
        state: TelegramState,
        *,
        sent_at: UnixMs | None = None,
        note: str | None = None,
    ) -> None:
        """Record the state of the Telegram message about *firings*."""
        values = [(str(state), sent_at, note, number) for number in firings]
        self._db.executemany(MARK_TELEGRAM, values)

    def refused(self, user_id: UserId, since: UnixMs) -> int:
        """Return the number of a user's firings after *since* that a limit kept from being sent.

        Firings that were sent in another way count, too.
        """
        return int(self._db.execute(REFUSED, (user_id, since)).get)

    def for_telegram(self, signal_id: SignalId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* firings of an alert that wait for Telegram, oldest first."""
        condition = "signal = ? AND telegram = 'waiting' ORDER BY signal_firing.id LIMIT ?"
        return self._all(condition, signal_id, limit)

    def of_signal(
        self, signal_id: SignalId, before: FiringId | None, limit: int
    ) -> Sequence[Firing]:
        """Return up to *limit* firings of an alert, newest first.

        before   only firings with a smaller ID; None: all firings
        """
        condition = (
            f"signal = ? AND signal_firing.id < coalesce(?, {NO_END})"
            " ORDER BY signal_firing.id DESC LIMIT ?"
        )
        return self._all(condition, signal_id, before, limit)

    def since(self, firing_id: FiringId, limit: int) -> Sequence[Firing]:
        """Return up to *limit* firings of all alerts after *firing_id*, oldest first."""
        return self._all("signal_firing.id > ? ORDER BY signal_firing.id LIMIT ?", firing_id, limit)

    def first_waiting(self) -> FiringId:
        """Return the ID of the first firing whose webhook still waits, by the table of firings.

        If there is none, return an ID above that of the newest firing.
        """
        return FiringId(self._db.execute(FIRST_WAITING).get)

    def deleted(self, numbers: Collection[SignalId]) -> Collection[SignalId]:
        """Return those of the alert IDs *numbers* whose alert does not exist."""
        found = set(numbers)
        left = iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            kept = f"SELECT id FROM signal WHERE id IN ({marks(part)})"  # noqa: S608  marks
            found.difference_update(SignalId(number) for (number,) in self._db.execute(kept, part))
        return found

    def give_up(self, signal_id: SignalId, at: UnixMs, reason: str) -> None:
        """Give up the unsent webhooks of an alert's firings, for *reason*."""
        self._db.execute(GIVE_UP, (at, reason, signal_id))

    def _due(self, due_at: UnixMs | None) -> UnixMs | None:
        return None if due_at is None else self._shared(due_at)

    def purge(self, before: UnixMs, limit: int) -> bool:
        """Delete up to *limit* firings older than *before*; return whether more may be left."""
        return delete_part(self._db, OLD, PURGE, before, limit)

    def trim(self, after: SignalId, signals_max: int, kept_max: int) -> SignalId | None:
        """Delete firings beyond the newest *kept_max* of each of up to *signals_max* alerts.

        The alerts are those that follow *after*.  Return the last of these alerts; None if no alert
        follows.  At most TRIMMED_MAX firings of each alert are deleted.
        """
        found = [number for (number,) in self._db.execute(NEXT_SIGNALS, (after, signals_max))]
        self._db.executemany(TRIM, [(number, kept_max) for number in found])
        return SignalId(found[-1]) if found else None


CROWD: Final = """
SELECT count(*), count(DISTINCT mint), coalesce(max(CASE WHEN mint = ? THEN 1 ELSE 0 END), 0)
  FROM signal WHERE is_active = 1
"""
REVISIONS: Final = """
SELECT id, revision FROM signal WHERE id > ? AND is_active = 1 ORDER BY id LIMIT ?
"""
NOTE_FIRED: Final = """
UPDATE signal SET fired_at = ?, hour_since = ?, hour_count = ? WHERE id = ?
"""
WAIT_FOR_EMAIL: Final = """
UPDATE signal SET email_due_at = ? WHERE id = ? AND email_due_at IS NULL
"""
KEEP_STATE: Final = "UPDATE signal SET state = ? WHERE id = ? AND revision = ?"
CLEAR: Final = "DELETE FROM signal_firing WHERE signal = ?"
FIXED: Final = frozenset({"mint", "field", "kind", "compared", "direction"})
HAND_OVER: Final = 'UPDATE signal SET "user" = ?, webhook_at = ? WHERE "user" = ?'


class SqlAlertRows(Table[SignalId, Alert]):
    """Reads and writes alerts, inside one transaction."""

    NAME = "signal"
    COLUMNS = Columns(
        Alert,
        "signal",
        signal_id="signal.id",
        user_id='signal."user"',
        rule=Columns(AlertRule, "signal"),
    )
    SOURCE = "signal WHERE"

    def update(self, signal_id: SignalId, /, **changes: Unpack[AlertChanges]) -> None:
        """Set the columns of an alert that *changes* names."""
        self._update(signal_id, changes)

    def change(self, signal_id: SignalId, rule: AlertRule) -> None:
        """Store the settings *rule* of an alert.

        Its mint, field, kind and direction stay unchanged.
        """
        self._update(signal_id, {k: v for k, v in asdict(rule).items() if k not in FIXED})

    def of_user(self, user_id: UserId) -> Sequence[Alert]:
        """Return the alerts of a user, in order of creation."""
        return self._all('"user" = ? ORDER BY id', user_id)

    def insert(self, user_id: UserId, rule: AlertRule, nonce: bytes, at: UnixMs) -> SignalId:
        """Add an alert with revision 1 and without a state; return its ID."""
        return self._add({"user": user_id, **asdict(rule), "nonce": nonce, "created_at": at})

    @override
    def delete(self, signal_id: SignalId, /) -> bool:
        """Delete an alert and its firings; return whether the alert existed."""
        self._db.execute(CLEAR, (signal_id,))
        return super().delete(signal_id)

    def crowd(self, mint: Mint) -> Crowd:
        """Return the number of active alerts and their mints, and whether *mint* has an alert."""
        signals, mints, has_mint = self._db.execute(CROWD, (mint,)).get
        return Crowd(signals, mints, bool(has_mint))

    def revisions(self, after: SignalId, limit: int) -> Mapping[SignalId, int]:
        """Return the revisions of up to *limit* active alerts whose ID is above *after*, by ID."""
        found = self._db.execute(REVISIONS, (after, limit))
        return {SignalId(number): revision for number, revision in found}

    def since(self, signal_id: SignalId, limit: int) -> Sequence[Alert]:
        """Return up to *limit* active alerts whose ID is *signal_id* or higher, sorted by ID."""
        return self._all("id >= ? AND is_active = 1 ORDER BY id LIMIT ?", signal_id, limit)

    def email_due(self, now: UnixMs, limit: int) -> Sequence[Alert]:
        """Return up to *limit* alerts with a due e-mail, the longest due first."""
        return self._all("email_due_at <= ? ORDER BY email_due_at, id LIMIT ?", now, limit)

    def wait_for_email(self, numbers: Collection[SignalId], at: UnixMs) -> None:
        """Schedule the next e-mail of these alerts for *at*, unless one is scheduled already."""
        self._db.executemany(WAIT_FOR_EMAIL, [(at, number) for number in numbers])

    def telegram_due(self, now: UnixMs, limit: int) -> Sequence[Alert]:
        """Return up to *limit* alerts with a due Telegram message, the longest due first."""
        return self._all("telegram_due_at <= ? ORDER BY telegram_due_at, id LIMIT ?", now, limit)

    def expired(self, now: UnixMs, limit: int) -> Sequence[Alert]:
        """Return up to *limit* active alerts that have expired, the earliest expiry first."""
        condition = "expires_at <= ? AND is_active = 1 ORDER BY expires_at, id LIMIT ?"
        return self._all(condition, now, limit)

    def keep_states(self, states: Sequence[tuple[SignalId, int, str]]) -> None:
        """Store the state of each alert whose revision is still the one in *states*.

        states   the ID, revision and state (JSON) of each alert
        """
        new_rows = [(state, number, revision) for number, revision, state in states]
        self._db.executemany(KEEP_STATE, new_rows)

    def some(self, numbers: Collection[SignalId]) -> Sequence[Alert]:
        """Return those alerts with the IDs *numbers* that are active."""
        found: list[Alert] = []
        left = iter(sorted(numbers))
        while part := list(islice(left, NUMBERS_MAX)):
            found += self._all(f"is_active = 1 AND id IN ({marks(part)})", *part)
        return found

    def note_fired(self, fired: Mapping[SignalId, FiredHour]) -> None:
        """Store the last firing of each alert, and the number of its firings in the hour."""
        self._db.executemany(NOTE_FIRED, [(*hour, number) for number, hour in fired.items()])

    def hand_over(self, giver: UserId, taker: UserId, at: UnixMs) -> None:
        """Transfer the alerts of *giver* to *taker* at *at*, even beyond the limit of alerts."""
        self._db.execute(HAND_OVER, (taker, at, giver))


NOWHERE: Final = AlertStanding(seq=0, version=0, holder=b"", held_until=UnixMs(0))
STANDING: Final = "SELECT seq, version, holder, held_until FROM signal_turn"
OPEN: Final = """
INSERT INTO signal_turn (id, seq, version, holder, held_until) VALUES (1, 0, 0, ?, 0)
    ON CONFLICT DO NOTHING
"""
HOLD: Final = "UPDATE signal_turn SET holder = ?, held_until = ?"
ADVANCE: Final = "UPDATE signal_turn SET seq = ?"
TOUCH: Final = "UPDATE signal_turn SET version = version + 1"
BASES: Final = "SELECT mint, seq, packed FROM signal_base ORDER BY mint"
KEEP: Final = """
INSERT INTO signal_base (mint, seq, packed) VALUES (?, ?, ?)
    ON CONFLICT (mint) DO UPDATE SET seq = excluded.seq, packed = excluded.packed
"""
MOVE: Final = "UPDATE signal_base SET seq = ? WHERE mint = ?"
DROP: Final = "DELETE FROM signal_base WHERE mint = ?"


class SqlLeaseRows:
    """Stores the lease and the progress of the evaluation, and states of mints for a restart."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def standing(self) -> AlertStanding:
        """Return the stored progress of the evaluation of alerts."""
        row = self._db.execute(STANDING).fetchone()
        if row is None:
            return NOWHERE
        seq, version, holder, held_until = row
        return AlertStanding(
            seq=seq,
            version=version,
            holder=bytes(holder),
            held_until=UnixMs(held_until + ahead_ms(self._db)),
        )

    def hold(self, holder: bytes, until: UnixMs) -> None:
        """Make *holder* the evaluating process until *until*."""
        self._db.execute(OPEN, (b"",))
        # By the clock of the database, which all processes share.
        self._db.execute(HOLD, (holder, until - ahead_ms(self._db)))

    def advance(self, seq: int) -> None:
        """Store *seq*, the position up to which all alerts are evaluated."""
        self._db.execute(ADVANCE, (seq,))

    def touch(self) -> None:
        """Record that an alert was created, changed or deleted."""
        self._db.execute(OPEN, (b"",))
        self._db.execute(TOUCH)

    def bases(self) -> Sequence[MintBase]:
        """Return the stored states of mints, from which an evaluation restarts."""
        found = self._db.execute(BASES)
        return [MintBase(Mint(mint), seq, bytes(packed)) for mint, seq, packed in found]

    def keep_bases(self, changed: Sequence[MintBase], seqs: Mapping[Mint, int]) -> None:
        """Store the states *changed* of mints, and update the log positions of other stored states.

        seqs   the new positions by mint
        """
        self._db.executemany(KEEP, [(base.mint, base.seq, base.packed) for base in changed])
        self._db.executemany(MOVE, [(seq, mint) for mint, seq in seqs.items()])

    def drop_bases(self, mints: Sequence[Mint]) -> None:
        """Delete the stored states of *mints*."""
        self._db.executemany(DROP, [(mint,) for mint in mints])


CHAT: Final = """
SELECT "user", chat_id, name, linked_at, blocked_at FROM telegram_chat WHERE "user" = ?
"""
LINK: Final = """
INSERT INTO telegram_chat ("user", chat_id, name, linked_at) VALUES (?, ?, ?, ?)
    ON CONFLICT ("user") DO UPDATE SET chat_id = excluded.chat_id, name = excluded.name,
        linked_at = excluded.linked_at, blocked_at = NULL
"""
UNLINK: Final = 'DELETE FROM telegram_chat WHERE "user" = ?'
USERS: Final = 'SELECT "user" FROM telegram_chat WHERE chat_id = ? ORDER BY "user"'
MOVE_CHAT: Final = "UPDATE telegram_chat SET chat_id = ? WHERE chat_id = ?"
BLOCK: Final = 'UPDATE telegram_chat SET blocked_at = ? WHERE "user" = ? AND chat_id = ?'


class SqlTelegramChatRows:
    """Reads and writes the Telegram chats that are linked to users, inside one transaction."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def chat(self, user_id: UserId) -> TelegramChat | None:
        """Return the chat of a user; None if the user has none."""
        row = self._db.execute(CHAT, (user_id,)).fetchone()
        return None if row is None else TelegramChat(*row)

    def link(self, chat: TelegramChat) -> None:
        """Store *chat*, which replaces an earlier chat of its user."""
        self._db.execute(LINK, (chat.user_id, chat.chat_id, chat.name, chat.linked_at))

    def unlink(self, user_id: UserId) -> None:
        """Delete the chat of a user."""
        self._db.execute(UNLINK, (user_id,))

    def users_of(self, chat_id: int) -> Sequence[UserId]:
        """Return the users to whose accounts the chat is linked."""
        return [UserId(user) for (user,) in self._db.execute(USERS, (chat_id,))]

    def move(self, old_id: int, new_id: int) -> None:
        """Change the ID of a chat, because a group became a supergroup."""
        self._db.execute(MOVE_CHAT, (new_id, old_id))

    def block(self, user_id: UserId, chat_id: int, at: UnixMs) -> None:
        """Record that the bot may not write to a chat, if the user still has that chat."""
        self._db.execute(BLOCK, (at, user_id, chat_id))
