"""Leaving: a person deletes the account.  The books and the audit log keep a number, no name."""

from dataclasses import dataclass

from mintscope.base.clock import Clock
from mintscope.base.primitives import UnixMs
from mintscope.core.accounts.application import SignupId
from mintscope.core.accounts.audit import user_actor
from mintscope.core.accounts.email_address import EmailAddress
from mintscope.core.accounts.mail.email import EmailKind, tell_owner
from mintscope.core.accounts.people.access import expect_removable, expect_session, remove
from mintscope.core.accounts.people.session import Session
from mintscope.core.accounts.signups.signups import forget
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.accounts.user import User


@dataclass(frozen=True, slots=True, kw_only=True)
class Belongings:
    """Possessions deleted with an account; *has_application*: its address has applied for a key."""

    credits: int
    keys: int
    groups: int
    signals: int
    wallets: int
    has_application: bool


@dataclass(kw_only=True, eq=False, repr=False)
class Leaving:
    """Lists what a deletion takes along, and deletes.  Raises SessionEnded, ServiceUnavailable."""

    store: AccountStore
    clock: Clock

    async def belongings(self, session: Session) -> Belongings:
        """Return what goes with the account."""
        now = self.clock.now()
        return await self.store.read(lambda rows: _belongings(rows, session.user, now))

    async def expect_possible(self, session: Session) -> None:
        """Raise NotPossible for the last administrator, and while a payment is under way."""
        await self.store.read(lambda rows: expect_removable(rows, session.user))

    async def leave(self, session: Session) -> None:
        """Delete the account, at once and for good; write to its address that this was done.

        Keys, sessions and links end; groups, wallets, addresses of clients and the application are
        deleted, and signals with what they fired, sent or not; no one can spend the credits.  Of
        the person only the number is kept.
        Raises    NotPossible for the last administrator, and while a payment is under way
        """
        now = self.clock.now()
        await self.store.transact(lambda rows: _leave(rows, session, now))


def _belongings(rows: AccountRows, user: User, at: UnixMs) -> Belongings:
    account = rows.credits.find(user.user_id)
    return Belongings(
        credits=0 if account is None else rows.credits.balance(account),
        keys=rows.user_keys.count_active(user.user_id, at),
        groups=len(rows.watchlists.of_user(user.user_id)),
        signals=len(rows.signals.of_user(user.user_id)),
        wallets=len(rows.wallets.of_user(user.user_id)),
        has_application=_own_application(rows, user) is not None,
    )


def _own_application(rows: AccountRows, user: User) -> SignupId | None:
    """Return the application that is this person's: it was exchanged here, or awaits that.

    One of an agent with an account of its own stays with that account.
    """
    kept = rows.applications.find(user.email)
    if kept is None or kept.owner not in {None, user.user_id}:
        return None
    if kept.owner is None and user.verified_at is None:
        return None  # anyone can sign up with a stranger's address
    return kept.application.signup_id


def _leave(rows: AccountRows, session: Session, at: UnixMs) -> None:
    owner = expect_session(rows, session)
    expect_removable(rows, owner)
    actor = user_actor(owner.user_id)
    application = _own_application(rows, owner)
    tell_owner(rows.emails, owner, EmailKind.ACCOUNT_REMOVED, {}, at)
    for line in rows.watchlists.of_user(owner.user_id):
        rows.watchlists.delete(line.watchlist_id)
    for linked in rows.wallets.of_user(owner.user_id):
        rows.wallets.unlink(owner.user_id, linked.wallet)
    rows.key_addresses.forget(owner.user_id)
    remove(rows, owner, actor, at)
    if application is not None:
        forget(rows, application, "forgotten", actor, at)
    rows.users.update(
        owner.user_id,
        email=EmailAddress(""),
        username=f"removed-{owner.user_id}",
        administrator=False,
    )
