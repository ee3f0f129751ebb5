"""Transfers and caps of users' credits, and the wallets linked to users."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mintscope.accounts.keys.key import KEYS_PER_USER_MAX, Holder, KeyLine, KeyStatus, are_within
from mintscope.accounts.keys.keys import cap_key, find_active, set_networks
from mintscope.accounts.mail.email import EmailKind
from mintscope.accounts.rows import AccountRows, AccountService, expect_user
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import Session
from mintscope.accounts.sessions import (
    SPEND_ALERT_SET,
    NotPossible,
    announce,
    expect_session,
)
from mintscope.accounts.wallets.wallets import (
    WALLETS_MAX,
    CreditMove,
    LinkedWallet,
    MoveKind,
    UsedLine,
)
from mintscope.kit.audit import Actor, KeyId, UserId, key_actor, user_actor
from mintscope.kit.credentials import CreditToken, hint
from mintscope.kit.primitives import CreditAccount, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, Month, month_of, utc

GENERATED_KEY_BYTES: Final = 24
USAGE_LINES_MAX: Final = 10_000
USAGE_KEYS_MAX: Final = 200  # the most keys whose names are read for one answer
KNOWN_MAX: Final = 100_000
# A client cannot send such an Idempotency-Key, because it is too short and has a space.
KEPT_KEY: Final = "kept {number}"
KEPT_MAX: Final = 100  # the most credit tokens of one user to keep credits
COMPARED_AT_ONCE: Final = 100  # spend alerts compared in one transaction


class MoveDenied(Enum):
    """A reason why no credits are moved."""

    KEY_USED = auto()  # the Idempotency-Key was used by another request
    CAPPED = auto()  # the key has a cap, which withdrawn credits would evade


@dataclass(frozen=True, slots=True)
class TooFew:
    """No credits are moved, because *balance* is 0, or lower than the requested number."""

    balance: int


class CapDenied(Enum):
    """A reason why the limits of a key are not changed."""

    NO_KEY = auto()  # the user has no active key with that id
    LOOSER = auto()  # a key can tighten limits and set missing limits, but not loosen limits


@dataclass(frozen=True, slots=True)
class Deposited:
    """The number of credits moved, and the balances of account and credit token afterwards."""

    credit_count: int
    balance: int
    token_balance: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A new credit token with *credit_count* credits, and the account's balance afterwards."""

    token: CreditToken
    credit_count: int
    balance: int


@dataclass(frozen=True, slots=True)
class KeptToken:
    """A credit token with credits that a user took out of the account before its deletion.

    number   1 for the first such token of the user, then 2, and so on
    """

    number: int
    token: CreditToken
    credit_count: int


class CreditsLeft(Exception):
    """The deletion would lose credits, or the user was not yet shown a token with moved credits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditSummary:
    """The credits of a user, the active keys, and the credits that each key has spent in *month*.

    spend_level   the credits spent in a day that cause an e-mail; None: no e-mail
    """

    balance: int
    keys: Sequence[KeyLine]
    spent: Mapping[KeyId, int]
    month: Month
    spend_level: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of an account: up to USAGE_LINES_MAX lines, newest first, and the keys in them.

    keys   by id, at most USAGE_KEYS_MAX
    """

    lines: Sequence[UsedLine]
    keys: Mapping[KeyId, KeyLine]


@dataclass(kw_only=True, eq=False, repr=False)
class AccountCredits(AccountService):
    """The credits of all users; each change is one transaction.

    Every method raises ServiceUnavailable if the database fails; a change is then undone, unless
    its commit had already begun.
    """

    _known: dict[UserId, CreditAccount] = field(default_factory=dict, init=False)

    async def find(self, user_id: UserId) -> CreditAccount | None:
        """Return the credit account of a user; None if the user has none.

        The account is cached, because it never changes.
        """
        found = self._known.get(user_id)
        if found is None:
            found = await self.store.read(lambda rows: rows.credits.find(user_id))
            if found is not None:
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()
                self._known[user_id] = found
        return found

    async def open(self, user_id: UserId) -> CreditAccount:
        """Return the credit account of a user; create it if there is none.  Raises UserRemoved."""
        found = await self.find(user_id)
        if found is not None:
            return found
        now = self.clock.now()

        def open_account(rows: AccountRows) -> CreditAccount:
            return rows.credits.open(expect_user(rows, user_id).user_id, now)

        return await self.store.transact(open_account)

    async def summary(self, user_id: UserId) -> CreditSummary:
        """Return the credits of a user, and the spending of the active keys this month."""
        now = self.clock.now()
        month = month_of(now)

        def read(rows: AccountRows) -> CreditSummary:
            account = rows.credits.find(user_id)
            shown = rows.api_keys.shown(user_id, now, KEYS_PER_USER_MAX)
            return CreditSummary(
                balance=0 if account is None else rows.credits.balance(account),
                keys=[line for line in shown if line.status(now) is KeyStatus.ACTIVE],
                spent=rows.credits.spent(user_id, month),
                month=month,
                spend_level=rows.credits.spend_level(user_id),
            )

        return await self.store.read(read)

    async def usage(self, user_id: UserId, since: int) -> Usage:
        """Return the usage of a user's account from *since* on, in UTC days since 1970-01-01."""

        def read(rows: AccountRows) -> Usage:
            lines = rows.credits.usage(user_id, since, USAGE_LINES_MAX)
            used = sorted({line.key_id for line in lines if line.key_id is not None}, reverse=True)
            found = [rows.api_keys.get(key_id) for key_id in used[:USAGE_KEYS_MAX]]
            return Usage(lines, {each.key_id: each for each in found if each is not None})

        return await self.store.read(read)

    async def set_spend_level(self, user_id: UserId, level: int | None) -> None:
        """Set the credits spent in a day that cause an e-mail to the user; None: no e-mail.

        Raises UserRemoved.
        """
        now = self.clock.now()

        def set_level(rows: AccountRows) -> None:
            expect_user(rows, user_id)
            rows.credits.set_spend_level(user_id, level, _reported_day(rows, user_id, now))
            level_text = "none" if level is None else str(level)
            rows.events.note_own(now, user_id, SPEND_ALERT_SET, credits=level_text)

        await self.store.transact(set_level)

    async def deposit(
        self, user_id: UserId, token: CreditAccount, credit_count: int | None, key: str | None
    ) -> Deposited | MoveDenied | TooFew:
        """Move *credit_count* credits of a credit token into the account of a user.

        Return TooFew if the token has too few credits, and MoveDenied if another request used
        *key*.

        credit_count    None: all credits of the credit token
        key             the Idempotency-Key, or None; a repetition with the same key returns the
                        first move, and moves no more credits
        Raises          UserRemoved
        """
        key_hash = self.secrets.request_hash(key, user_id)
        now = self.clock.now()

        def deposit(rows: AccountRows) -> Deposited | MoveDenied | TooFew:
            expect_user(rows, user_id)
            account = rows.credits.open(user_id, now)
            move = None if key_hash is None else rows.moves.find(key_hash)
            if move is None:
                held = rows.moves.hold(token, account)
                wanted = held if credit_count is None else credit_count
                if not 1 <= wanted <= held:
                    return TooFew(held)
                kind = MoveKind.DEPOSIT
                move = CreditMove(user_id, kind, token, account, wanted, now, key_hash)
                rows.moves.move(move)
            elif move.off != token or not _is_same(move, MoveKind.DEPOSIT, credit_count):
                return MoveDenied.KEY_USED
            left = rows.credits.balance(account)
            return Deposited(move.credit_count, left, rows.credits.balance(token))

        return await self.store.transact(deposit)

    async def withdraw(
        self,
        user_id: UserId,
        credit_count: int | None,
        key: str | None,
        *,
        asked_by: KeyId | None = None,
    ) -> Withdrawn | MoveDenied | TooFew:
        """Move *credit_count* credits to a new credit token; None: all of them.

        A repetition with the same *key* returns the same credit token, and moves no further
        credits.  Return TooFew if the account has too few credits, and MoveDenied if another
        request used *key*, or if *asked_by* has a cap.

        key         the Idempotency-Key, or None
        asked_by    the API key of the request; None: the user, for whom no cap applies
        """
        sent_key = self.entropy(GENERATED_KEY_BYTES).hex() if key is None else key
        now = self.clock.now()

        def withdraw(rows: AccountRows) -> Withdrawn | MoveDenied | TooFew:
            asking = None if asked_by is None else rows.api_keys.get(asked_by)
            is_capped = asking is not None and asking.month_credits_max is not None
            return self._withdraw(rows, user_id, credit_count, sent_key, now, is_capped=is_capped)

        return await self.store.transact(withdraw)

    def _withdraw(  # noqa: PLR0913 - one argument for each part
        self,
        rows: AccountRows,
        user_id: UserId,
        credit_count: int | None,
        key: str,
        now: UnixMs,
        *,
        is_capped: bool = False,
    ) -> Withdrawn | MoveDenied | TooFew:
        token = self.secrets.withdrawn_token(user_id, key)
        key_hash = self.secrets.request_hash(key, user_id)
        assert key_hash is not None, "there is a key"
        account = rows.credits.open(user_id, now)
        # Before the balance is read: a repetition must succeed although the credits have left.
        move = rows.moves.find(key_hash)
        if move is None:
            held = rows.moves.hold(account, account)
            # Only for a new move: a repetition gets its token, even if the key was capped since.
            if is_capped:
                return MoveDenied.CAPPED
            wanted = held if credit_count is None else credit_count
            if not 1 <= wanted <= held:
                return TooFew(held)
            onto = rows.credits.open_token(self.secrets.hash(token), hint(token), account, now)
            kind = MoveKind.WITHDRAWAL
            move = CreditMove(user_id, kind, account, onto, wanted, now, key_hash)
            rows.moves.move(move)
        elif not _is_same(move, MoveKind.WITHDRAWAL, credit_count):
            return MoveDenied.KEY_USED
        return Withdrawn(token, move.credit_count, rows.credits.balance(account))

    async def keep(self, session: Session) -> Sequence[KeptToken]:
        """Move all credits of the account to a credit token that outlives the account.

        Return every credit token that was made in this way and still has credits.  Write an e-mail
        with an undo link about each new token, because its holder may be a thief.  A repetition
        returns the same tokens; it moves credits that came in since to a further token, because
        someone else may have the earlier tokens.
        Raises    SessionEnded; NotPossible if KEPT_MAX tokens were made before
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)

        def keep(rows: AccountRows) -> Sequence[KeptToken]:
            owner = expect_session(rows, session)
            user_id = owner.user_id
            account = rows.credits.open(user_id, now)
            # Locked, because a debit that took the credits meanwhile would leave none to withdraw.
            if rows.moves.hold(account, account):
                number = sum(1 for _ in self._kept_moves(rows, user_id)) + 1
                if number > KEPT_MAX:
                    raise NotPossible(
                        f"expected at most {KEPT_MAX} credit tokens of earlier attempts; there are"
                        " as many. Spend your credits, or move them out with an API key, first"
                    )
                made = self._withdraw(rows, user_id, None, KEPT_KEY.format(number=number), now)
                assert isinstance(made, Withdrawn), "the account has credits, and the key is new"
                facts = {"credits": str(made.credit_count), "hint": hint(made.token)}
                rows.events.note_own(now, user_id, "moved credits out", **facts)
                kind = EmailKind.CREDITS_MOVED
                announce(rows, owner, kind, facts, nonce, session.created_at, now)
            return self._kept(rows, user_id)

        return await self.store.transact(keep)

    async def kept(self, user_id: UserId) -> Sequence[KeptToken]:
        """Return the credit tokens that hold credits moved out of the account before its deletion.

        Credit tokens that are spent are omitted.
        """
        return await self.store.read(lambda rows: self._kept(rows, user_id))

    def expect_kept(self, user_id: UserId, seen: int) -> Callable[[AccountRows], None]:
        """Return a function that raises CreditsLeft if a deletion would lose credits of the user.

        It would lose the credits of the account, and those moved to a credit token that the user
        was not shown yet: one with a number above *seen*.
        """

        def expect(rows: AccountRows) -> None:
            account = rows.credits.find(user_id)
            if account is not None and rows.moves.hold(account, account):
                raise CreditsLeft
            if any(each.number > seen for each in self._kept(rows, user_id)):
                raise CreditsLeft

        return expect

    def _kept(self, rows: AccountRows, user_id: UserId) -> list[KeptToken]:
        found = []
        for number, move in enumerate(self._kept_moves(rows, user_id), 1):
            balance = rows.credits.balance(move.onto)
            if balance:
                token = self.secrets.withdrawn_token(user_id, KEPT_KEY.format(number=number))
                found.append(KeptToken(number, token, balance))
        return found

    def _kept_moves(self, rows: AccountRows, user_id: UserId) -> Iterator[CreditMove]:
        for number in range(1, KEPT_MAX + 1):
            key_hash = self.secrets.request_hash(KEPT_KEY.format(number=number), user_id)
            assert key_hash is not None, "there is a key"
            move = rows.moves.find(key_hash)
            if move is None:
                return
            yield move

    async def tighten(
        self, holder: Holder, key_id: KeyId, month_credits_max: int | None, networks: str | None
    ) -> KeyLine | CapDenied:
        """Tighten the limits of an active key of the holder's user; None does not change a limit.

        Return the changed key, or CapDenied if there is no such key or a limit would be looser.

        networks    networks in CIDR notation; each must be in one of the key's networks
        """
        now = self.clock.now()
        actor = key_actor(holder.key.key_id)

        def tighten(rows: AccountRows) -> KeyLine | CapDenied:
            line = find_active(rows, holder.key.user_id, key_id, now)
            if line is None:
                return CapDenied.NO_KEY
            cap = line.month_credits_max
            if month_credits_max is not None and cap is not None and month_credits_max > cap:
                return CapDenied.LOOSER
            if networks is not None and not are_within(networks, line.networks):
                return CapDenied.LOOSER
            if month_credits_max is not None and month_credits_max != cap:
                cap_key(rows, line, month_credits_max, actor, now)
            if networks is not None and networks != line.networks:
                set_networks(rows, line, networks, actor, now)
            changed = rows.api_keys.get(key_id)
            assert changed is not None
            return changed

        return await self.store.transact(tighten)


def hand_over(rows: AccountRows, giver: UserId, taker: UserId, at: UnixMs) -> None:
    """Transfer wallets, watchlists, alerts and all credits of *giver* to *taker*.

    Credits of purchases in progress are also transferred, when the purchases complete.
    """
    rows.wallets.hand_over(giver, taker, at)
    rows.watchlists.hand_over(giver, taker)
    rows.signals.hand_over(giver, taker, at)
    off = rows.credits.find(giver)
    if off is None:
        return
    onto = rows.credits.open(taker, at)
    balance = rows.moves.hold(off, onto)
    if balance:
        rows.moves.move(CreditMove(taker, MoveKind.CLAIM, off, onto, balance, at, None))
    # Also without credits: purchases and reversals of the agent may still come.
    rows.moves.succeed(off, onto)


def notify_of_spending(rows: AccountRows, now: UnixMs) -> bool:
    """E-mail the users whose accounts have reached the levels of their spend alerts in a day.

    Compare up to COMPARED_AT_ONCE due spend alerts with the spending of yesterday and today (UTC).
    Return whether more spend alerts may be due.
    """
    today = now // DAY_MS
    overspent, is_more = rows.credits.take_overspent(today - 1, COMPARED_AT_ONCE)
    for user_id, day, spent, level in overspent:
        kept = rows.users.get(user_id)
        if kept is not None:
            facts = {"spent": f"{spent:,}", "level": f"{level:,}", "day": _day_text(day)}
            rows.emails.tell_owner(kept.user, EmailKind.SPEND_ALERT, facts, now)
        rows.credits.note_overspent(user_id, day)
    return is_more


def _reported_day(rows: AccountRows, user_id: UserId, now: UnixMs) -> int:
    """Return the last day for which no spending e-mail is needed any more.

    This is today if an e-mail about today's spending was written, otherwise yesterday.  Days are
    numbered since 1970-01-01, in UTC.
    """
    today = now // DAY_MS
    kept = rows.users.get(user_id)
    if kept is None:
        return today - 1
    begun_at = UnixMs(today * DAY_MS - 1)
    written = rows.emails.written_to(kept.user.email, EmailKind.SPEND_ALERT, begun_at)
    is_reported = any(each.facts.get("day") == _day_text(today) for each in written)
    return today if is_reported else today - 1


def _day_text(day: int) -> str:
    return f"{utc(UnixMs(day * DAY_MS)):%d %B %Y}"


def _is_same(before: CreditMove, kind: MoveKind, credit_count: int | None) -> bool:
    return before.kind is kind and credit_count in {None, before.credit_count}


@dataclass(kw_only=True, eq=False, repr=False)
class Wallets(AccountService):
    """The linked wallets of all users; each operation is one transaction.

    Every method raises ServiceUnavailable if the database fails; a change is then undone, unless
    its commit had already begun.

    origin     the origin at which clients reach this service
    """

    origin: str

    async def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order of linking."""
        return await self.store.read(lambda rows: rows.wallets.of_user(user_id))

    async def link(self, by: Holder | Session, wallet: Wallet) -> Sequence[LinkedWallet] | None:
        """Link a wallet that the user has proven to own; return all linked wallets.

        Return None if the user has reached the limit of wallets.  An undo link in the e-mail about
        the wallet undoes the changes since the session began, or from now on if *by* is a key.
        Raises SessionEnded.

        by   the key or the session of the request
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)

        def link(rows: AccountRows) -> Sequence[LinkedWallet] | None:
            user_id, actor = _acting(rows, by)
            linked = rows.wallets.of_user(user_id)
            if all(each.wallet != wallet for each in linked):
                if len(linked) >= WALLETS_MAX:
                    return None
                rows.wallets.link(user_id, wallet, now)
                rows.events.note(now, actor, "linked wallet", f"user:{user_id}", wallet=wallet)
                owner = rows.users.get(user_id)
                assert owner is not None, "the user of a key or session that was found just now"
                since = by.created_at if isinstance(by, Session) else now
                facts: dict[str, str] = {"wallet": wallet}
                announce(rows, owner.user, EmailKind.WALLET_LINKED, facts, nonce, since, now)
            return rows.wallets.of_user(user_id)

        return await self.store.transact(link)

    async def unlink(self, by: Holder | Session, wallet: Wallet) -> Sequence[LinkedWallet] | None:
        """Unlink a wallet; return the remaining wallets, or None if *wallet* was not linked.

        Raises SessionEnded.
        """
        now = self.clock.now()

        def unlink(rows: AccountRows) -> Sequence[LinkedWallet] | None:
            user_id, actor = _acting(rows, by)
            if not rows.wallets.unlink(user_id, wallet):
                return None
            rows.events.note(now, actor, "unlinked wallet", f"user:{user_id}", wallet=wallet)
            return rows.wallets.of_user(user_id)

        return await self.store.transact(unlink)


def _acting(rows: AccountRows, by: Holder | Session) -> tuple[UserId, Actor]:
    """Return the user of *by*, and the actor for the audit log.

    Raises SessionEnded, also if the user of a key was removed.
    """
    if isinstance(by, Holder):
        return expect_user(rows, by.key.user_id).user_id, key_actor(by.key.key_id)
    user_id = expect_session(rows, by).user_id
    return user_id, user_actor(user_id)
