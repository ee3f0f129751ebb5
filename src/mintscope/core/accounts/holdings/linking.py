"""Linking wallets to users, and reading what they paid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mintscope.base.clock import Clock
from mintscope.base.primitives import Signature, UnixMs, Wallet
from mintscope.core.accounts.audit import key_actor, note
from mintscope.core.accounts.holdings.wallets import (
    WALLETS_MAX,
    LinkDenied,
    LinkedWallet,
    WalletPayment,
)
from mintscope.core.accounts.keys.api_key import Holder
from mintscope.core.accounts.mail.email import EmailKind
from mintscope.core.accounts.people.taking_back import announce
from mintscope.core.accounts.secrets import NONCE_BYTES, AccountSecrets
from mintscope.core.accounts.store import AccountRows, AccountStore
from mintscope.core.accounts.user import UserId


@dataclass(frozen=True, slots=True, kw_only=True)
class Wallets:
    """The linked wallets of all users; each verb is one transaction.

    entropy    returns so many bytes from a cryptographic generator
    origin     this service as its clients reach it
    Raises ServiceUnavailable from every verb, nothing being done.
    """

    store: AccountStore
    secrets: AccountSecrets
    clock: Clock
    entropy: Callable[[int], bytes]
    origin: str

    async def of_user(self, user_id: UserId) -> Sequence[LinkedWallet]:
        """Return the wallets of a user, in the order in which they were linked."""
        return await self.store.read(lambda rows: rows.wallets.of_user(user_id))

    async def link(self, holder: Holder, wallet: Wallet) -> Sequence[LinkedWallet] | LinkDenied:
        """Link a wallet that has proven to be the user's, unless it is; return all."""
        now = self.clock.now()
        nonce = self.entropy(NONCE_BYTES)
        return await self.store.transact(lambda rows: _link(rows, holder, wallet, nonce, now))

    async def unlink(self, holder: Holder, wallet: Wallet) -> Sequence[LinkedWallet] | None:
        """Unlink a wallet; return those that are left, None if it was not linked."""
        now = self.clock.now()
        return await self.store.transact(lambda rows: _unlink(rows, holder, wallet, now))

    async def payments(
        self, user_id: UserId, before: tuple[UnixMs, Signature] | None, limit: int
    ) -> Sequence[WalletPayment]:
        """Return up to *limit* payments of the linked wallets, newest first, behind *before*."""
        return await self.store.read(lambda rows: rows.wallets.payments(user_id, before, limit))


def _link(
    rows: AccountRows, holder: Holder, wallet: Wallet, nonce: bytes, at: UnixMs
) -> Sequence[LinkedWallet] | LinkDenied:
    user_id = holder.key.user_id
    linked = rows.wallets.of_user(user_id)
    if all(each.wallet != wallet for each in linked):
        if len(linked) >= WALLETS_MAX:
            return LinkDenied.TOO_MANY
        rows.wallets.link(user_id, wallet, at)
        _note(rows, holder, "linked wallet", wallet, at)
        owner = rows.users.get(user_id)
        assert owner is not None, "the user of a key that was found just now"
        announce(rows, owner.user, EmailKind.WALLET_LINKED, {"wallet": wallet}, nonce, at, at)
    return rows.wallets.of_user(user_id)


def _unlink(
    rows: AccountRows, holder: Holder, wallet: Wallet, at: UnixMs
) -> Sequence[LinkedWallet] | None:
    if not rows.wallets.unlink(holder.key.user_id, wallet):
        return None
    _note(rows, holder, "unlinked wallet", wallet, at)
    return rows.wallets.of_user(holder.key.user_id)


def _note(rows: AccountRows, holder: Holder, action: str, wallet: Wallet, at: UnixMs) -> None:
    actor = key_actor(holder.key.key_id)
    subject = f"user:{holder.key.user_id}"
    note(rows.events, at, actor, action, subject, wallet=wallet)
