"""Transfers and caps of users' credits, and the wallets linked to users."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from mintscope.accounts.keys.key import KEYS_PER_USER_MAX, Holder, KeyLine, KeyStatus, are_within
from mintscope.accounts.keys.keys import note_networks
from mintscope.accounts.mail.email import EmailKind, tell_owner
from mintscope.accounts.rows import AccountRows, AccountService
from mintscope.accounts.secrets import NONCE_BYTES
from mintscope.accounts.session import Session
from mintscope.accounts.sessions import CAPPED, SPEND_ALERT_SET, announce, expect_session
from mintscope.accounts.wallets.wallets import (
    WALLETS_MAX,
    CreditMove,
    LinkDenied,
    LinkedWallet,
    MoveKind,
    UsedLine,
    WalletPayment,
)
from mintscope.kit.audit import Actor, KeyId, UserId, key_actor, user_actor
from mintscope.kit.credentials import CredentialHash, CreditToken, hint
from mintscope.kit.primitives import CreditAccount, Signature, UnixMs, Wallet
from mintscope.kit.time import DAY_MS, Month, month_of, utc

GENERATED_KEY_BYTES: Final = 24
USAGE_LINES_MAX: Final = 10_000
USAGE_KEYS_MAX: Final = 200  # the most keys whose names are read for one answer
KNOWN_MAX: Final = 100_000
COMPARED_AT_ONCE: Final = 100  # spend alerts compared in one transaction


class MoveDenied(Enum):
    """A reason why no credits are moved."""

    TOO_FEW = auto()  # the balance is 0, or lower than the requested number
    KEY_USED = auto()  # the Idempotency-Key was used by another request
    CAPPED = auto()  # the key has a cap, which withdrawn credits would evade


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
    """The use of an account: its newest USAGE_LINES_MAX lines, and the keys in these lines.

    lines   the use by day, key and endpoint
    keys    the newest USAGE_KEYS_MAX of the keys, by their id
    """

    lines: Sequence[UsedLine]
    keys: Mapping[KeyId, KeyLine]


@dataclass(kw_only=True, eq=False, repr=False)
class AccountCredits(AccountService):
    """The credits of all users; each operation is one transaction.

    Every method raises ServiceUnavailable if the database fails; nothing was then changed.
    """

    _known: dict[UserId, CreditAccount] = field(default_factory=dict, init=False)

    async def find(self, user_id: UserId) -> CreditAccount | None:
        """Return the credit account of a user; None if there is none.

        The account of a user never changes, so it is cached.
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
        """Return the credit account of a user; create it if there is none."""
        found = await self.find(user_id)
        if found is not None:
            return found
        now = self.clock.now()
        return await self.store.transact(lambda rows: rows.credits.open(user_id, now))

    async def summary(self, user_id: UserId) -> CreditSummary:
        """Return the credits of a user, and the spending of the active keys this month."""
        now = self.clock.now()
        return await self.store.read(lambda rows: _summary(rows, user_id, now))

    async def usage(self, user_id: UserId, since: int) -> Usage:
        """Return the use of a user's account from the day *since* on, UTC days since 1970-01-01."""
        return await self.store.read(lambda rows: _usage(rows, user_id, since))

    async def set_spend_level(self, user_id: UserId, level: int | None) -> None:
        """Set the credits spent in a day that cause an e-mail to the user; None: no e-mail."""
        now = self.clock.now()

        def set_level(rows: AccountRows) -> None:
            rows.credits.set_spend_level(user_id, level, _reported_day(rows, user_id, now))
            level_text = "none" if level is None else str(level)
            actor = user_actor(user_id)
            rows.events.note(now, actor, SPEND_ALERT_SET, f"user:{user_id}", credits=level_text)

        await self.store.transact(set_level)

    async def deposit(
        self, user_id: UserId, token: CreditAccount, credit_count: int | None, key: str | None
    ) -> Deposited | MoveDenied:
        """Move *credit_count* credits of a credit token into the account of a user.

        Return MoveDenied if the token has too few credits, or if another request used *key*.

        credit_count    None: all credits of the credit token
        key             the Idempotency-Key, or None; a repetition with it moves nothing again
        """
        key_hash = self.secrets.request_hash(key, user_id)
        now = self.clock.now()
        return await self.store.transact(
            lambda rows: _deposit(rows, user_id, token, credit_count, key_hash=key_hash, at=now)
        )

    async def withdraw(
        self,
        user_id: UserId,
        credit_count: int | None,
        key: str | None,
        *,
        asked_by: KeyId | None = None,
    ) -> Withdrawn | MoveDenied:
        """Move *credit_count* credits of the account to a new credit token; None: all of them.

        A repetition with the same *key* moves nothing again, and returns the same credit token.
        Return MoveDenied if the account has too few credits, if another request used *key*, or if
        *asked_by* has a cap.

        key         the Idempotency-Key, or None
        asked_by    the API key of the request; None: the user, for whom no cap applies
        """
        sent_key = self.entropy(GENERATED_KEY_BYTES).hex() if key is None else key
        token = self.secrets.withdrawn_token(user_id, sent_key)
        opening = self.secrets.hash(token), hint(token)
        key_hash = self.secrets.request_hash(sent_key, user_id)
        now = self.clock.now()
        moved = await self.store.transact(
            lambda rows: _withdraw(
                rows,
                user_id,
                credit_count,
                opening,
                asked_by=asked_by,
                key_hash=key_hash,
                at=now,
            )
        )
        return moved if isinstance(moved, MoveDenied) else Withdrawn(token, *moved)

    async def tighten(
        self, holder: Holder, key_id: KeyId, month_credits_max: int | None, networks: str | None
    ) -> KeyLine | CapDenied:
        """Tighten the limits of an active key of the holder's user; None does not change a limit.

        Return the changed key, or CapDenied if there is no such key or a limit would be looser.

        networks    a text from `parse_networks`; each network must be in one of the key's networks
        """
        now = self.clock.now()
        return await self.store.transact(
            lambda rows: _tighten(rows, holder, key_id, month_credits_max, networks, now)
        )


def hand_over(rows: AccountRows, giver: UserId, taker: UserId, at: UnixMs) -> None:
    """Transfer wallets, watchlists, alerts and all credits of *giver* to *taker*.

    Credits of purchases in progress are also transferred, when the purchases complete.
    """
    rows.wallets.hand_over(giver, taker)
    rows.watchlists.hand_over(giver, taker)
    rows.signals.hand_over(giver, taker)
    off = rows.credits.find(giver)
    if off is None:
        return
    onto = rows.credits.open(taker, at)
    balance = rows.moves.hold(off, onto)
    if balance:
        rows.moves.move(
            CreditMove(
                user_id=taker,
                kind=MoveKind.CLAIM,
                off=off,
                onto=onto,
                credit_count=balance,
                at=at,
                key_hash=None,
            )
        )
    rows.moves.succeed(off, onto)


def _summary(rows: AccountRows, user_id: UserId, now: UnixMs) -> CreditSummary:
    account = rows.credits.find(user_id)
    month = month_of(now)
    shown = rows.api_keys.shown(user_id, now, KEYS_PER_USER_MAX)
    return CreditSummary(
        balance=0 if account is None else rows.credits.balance(account),
        keys=[line for line in shown if line.status(now) is KeyStatus.ACTIVE],
        spent=rows.credits.spent(user_id, month),
        month=month,
        spend_level=rows.credits.spend_level(user_id),
    )


def _usage(rows: AccountRows, user_id: UserId, since: int) -> Usage:
    lines = rows.credits.usage(user_id, since, USAGE_LINES_MAX)
    used = sorted({line.key_id for line in lines if line.key_id is not None}, reverse=True)
    found = [rows.api_keys.get(key_id) for key_id in used[:USAGE_KEYS_MAX]]
    return Usage(lines, {each.key_id: each for each in found if each is not None})


def notify_of_spending(rows: AccountRows, now: UnixMs) -> bool:
    """E-mail each user whose account has reached the level of its spend alert in a day.

    Return whether more spend alerts may be due.
    """
    today = now // DAY_MS
    overspent, is_more = rows.credits.take_overspent(today - 1, COMPARED_AT_ONCE)
    for user_id, day, spent, level in overspent:
        kept = rows.users.get(user_id)
        if kept is not None:
            facts = {"spent": f"{spent:,}", "level": f"{level:,}", "day": _day_text(day)}
            tell_owner(rows.emails, kept.user, EmailKind.SPEND_ALERT, facts, now)
        rows.credits.note_overspent(user_id, day)
    return is_more


def _reported_day(rows: AccountRows, user_id: UserId, now: UnixMs) -> int:
    """Return today if an e-mail about today's spending was written, otherwise yesterday.

    Days are numbered since 1970-01-01, in UTC.
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


def _deposit(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows,
    user_id: UserId,
    token: CreditAccount,
    credit_count: int | None,
    *,
    key_hash: CredentialHash | None,
    at: UnixMs,
) -> Deposited | MoveDenied:
    account = rows.credits.open(user_id, at)
    before = None if key_hash is None else rows.moves.find(key_hash)
    if before is None:
        held = rows.moves.hold(token, account)
        wanted = held if credit_count is None else credit_count
        if not 1 <= wanted <= held:
            return MoveDenied.TOO_FEW
        before = CreditMove(
            user_id=user_id,
            kind=MoveKind.DEPOSIT,
            off=token,
            onto=account,
            credit_count=wanted,
            at=at,
            key_hash=key_hash,
        )
        rows.moves.move(before)
    elif before.off != token or not _is_same(before, MoveKind.DEPOSIT, credit_count):
        return MoveDenied.KEY_USED
    left = rows.credits.balance(account)
    token_left = rows.credits.balance(token)
    return Deposited(before.credit_count, left, token_left)


def _withdraw(  # noqa: PLR0913 - one argument for each part
    rows: AccountRows,
    user_id: UserId,
    credit_count: int | None,
    opening: tuple[CredentialHash, str],
    *,
    asked_by: KeyId | None,
    key_hash: CredentialHash | None,
    at: UnixMs,
) -> tuple[int, int] | MoveDenied:
    """Withdraw credits; return the number of moved credits, and the balance afterwards.

    Return MoveDenied in the cases of `AccountCredits.withdraw`.
    """
    account = rows.credits.open(user_id, at)
    before = None if key_hash is None else rows.moves.find(key_hash)
    if before is None:
        held = rows.moves.hold(account, account)
        asking = None if asked_by is None else rows.api_keys.get(asked_by)
        if asking is not None and asking.month_credits_max is not None:
            return MoveDenied.CAPPED
        wanted = held if credit_count is None else credit_count
        if not 1 <= wanted <= held:
            return MoveDenied.TOO_FEW
        before = CreditMove(
            user_id=user_id,
            kind=MoveKind.WITHDRAWAL,
            off=account,
            onto=rows.credits.open_token(*opening, account, at),
            credit_count=wanted,
            at=at,
            key_hash=key_hash,
        )
        rows.moves.move(before)
    elif not _is_same(before, MoveKind.WITHDRAWAL, credit_count):
        return MoveDenied.KEY_USED
    return before.credit_count, rows.credits.balance(account)


def _is_same(before: CreditMove, kind: MoveKind, credit_count: int | None) -> bool:
    return before.kind is kind and credit_count in {None, before.credit_count}


def _tighten(  # noqa: PLR0913, PLR0917 - one argument for each part
    rows: AccountRows,
    holder: Holder,
    key_id: KeyId,
    month_credits_max: int | None,
    networks: str | None,
    at: UnixMs,
) -> KeyLine | CapDenied:
    line = rows.api_keys.get(key_id)
    if (
        line is None
        or line.user_id != holder.key.user_id
        or line.status(at) is not KeyStatus.ACTIVE
    ):
        return CapDenied.NO_KEY
    cap = line.month_credits_max
    if month_credits_max is not None and cap is not None and month_credits_max > cap:
        return CapDenied.LOOSER
    if networks is not None and not are_within(networks, line.networks):
        return CapDenied.LOOSER
    actor = key_actor(holder.key.key_id)
    if month_credits_max is not None and month_credits_max != cap:
        rows.api_keys.update(key_id, month_credits_max=month_credits_max)
        rows.events.note(at, actor, CAPPED, f"key:{key_id}", credits=str(month_credits_max))
    if networks is not None and networks != line.networks:
        rows.api_keys.update(key_id, networks=networks)
        note_networks(rows, actor, line, at)
    changed = rows.api_keys.get(key_id)
    assert changed is not None
    return changed


@dataclass(kw_only=True, eq=False, repr=False)
class Wallets(AccountService):
    """The linked wallets of all users; each operation is one transaction.

    origin     the origin at which clients reach this service
    Every method raises ServiceUnavailable if the database fails; nothing was then changed.
    """

    origin: str

    async def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order of linking."""
        return await self.store.read(lambda rows: rows.wallets.of_user(user_id))

    async def link(
        self, user_id: UserId, by: Actor, wallet: Wallet
    ) -> Sequence[LinkedWallet] | LinkDenied:
        """Link a wallet that the user has proven to own; return all linked wallets.

        Return LinkDenied if the user has reached the limit of wallets.
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        return await self.store.transact(
            lambda rows: _link(rows, user_id, by, wallet, nonce, since=now, at=now)
        )

    async def link_in(
        self, session: Session, wallet: Wallet
    ) -> Sequence[LinkedWallet] | LinkDenied:
        """Link a wallet like `link`, in a session of the user.  Raises SessionEnded.

        The undo link in the e-mail about the new wallet undoes all changes since the beginning of
        the session.
        """
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)

        def act(rows: AccountRows) -> Sequence[LinkedWallet] | LinkDenied:
            user_id = expect_session(rows, session).user_id
            by = user_actor(user_id)
            return _link(rows, user_id, by, wallet, nonce, since=session.created_at, at=now)

        return await self.store.transact(act)

    async def unlink(
        self, user_id: UserId, by: Actor, wallet: Wallet
    ) -> Sequence[LinkedWallet] | None:
        """Unlink a wallet; return the remaining wallets, or None if *wallet* was not linked."""
        now = self.clock.now()
        return await self.store.transact(lambda rows: _unlink(rows, user_id, by, wallet, now))

    async def unlink_in(self, session: Session, wallet: Wallet) -> Sequence[LinkedWallet] | None:
        """Unlink a wallet like `unlink`, in a session of the user.  Raises SessionEnded."""
        now = self.clock.now()

        def act(rows: AccountRows) -> Sequence[LinkedWallet] | None:
            user_id = expect_session(rows, session).user_id
            return _unlink(rows, user_id, user_actor(user_id), wallet, now)

        return await self.store.transact(act)

    async def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of linked wallets, newest first.

        before   only payments older than the one with this time and signature; None: all
        """
        return await self.store.read(lambda rows: rows.wallets.payments(user_id, before, limit))


def _link(  # noqa: PLR0913 - one argument for each fact
    rows: AccountRows,
    user_id: UserId,
    by: Actor,
    wallet: Wallet,
    nonce: bytes,
    *,
    since: UnixMs,
    at: UnixMs,
) -> Sequence[LinkedWallet] | LinkDenied:
    linked = rows.wallets.of_user(user_id)
    if all(each.wallet != wallet for each in linked):
        if len(linked) >= WALLETS_MAX:
            return LinkDenied.TOO_MANY
        rows.wallets.link(user_id, wallet, at)
        rows.events.note(at, by, "linked wallet", f"user:{user_id}", wallet=wallet)
        owner = rows.users.get(user_id)
        assert owner is not None, "the user of a key or session that was found just now"
        announce(rows, owner.user, EmailKind.WALLET_LINKED, {"wallet": wallet}, nonce, since, at)
    return rows.wallets.of_user(user_id)


def _unlink(
    rows: AccountRows, user_id: UserId, by: Actor, wallet: Wallet, at: UnixMs
) -> Sequence[LinkedWallet] | None:
    if not rows.wallets.unlink(user_id, wallet):
        return None
    rows.events.note(at, by, "unlinked wallet", f"user:{user_id}", wallet=wallet)
    return rows.wallets.of_user(user_id)
