"""Purchases on pages: one credit of the account, for as long as a window of limits lasts."""

from mintscope.accounts.wallets.credits import AccountCredits
from mintscope.credits.ledger import Spent
from mintscope.kit.audit import UserId
from mintscope.kit.limits import Denied, Limit, Limiter
from mintscope.site.sol import MarketParts


class Purchases:
    """The purchases of all users of one kind; a key names the buyer and the thing bought.

    limit    of one take: a key that was taken is bought until its window ends
    """

    def __init__(self, market: MarketParts, accounts: AccountCredits, limit: Limit) -> None:
        self._market = market
        self._accounts = accounts
        self._bought: Limiter = market.limits.limiter(limit)

    async def has(self, key: str) -> bool:
        """Return whether *key* is bought, without counting anything."""
        return await is_taken(self._bought, key)

    async def buy(self, user_id: UserId, key: str) -> bool:
        """Spend a user's credit on *key*, unless it is bought already; False if none is left.

        Raises ServiceUnavailable, and nothing is spent.
        """
        if isinstance(await self._bought.take(key), Denied):
            return True
        is_bought = False
        try:
            account = await self._accounts.find(user_id)
            if account is not None:
                is_bought = isinstance(await self._market.ledger.spend(account), Spent)
        finally:
            if not is_bought:
                await self._bought.give_back(key)
        return is_bought

    async def credits_of(self, user_id: UserId) -> int:
        """Return the credits of a user."""
        account = await self._accounts.find(user_id)
        return 0 if account is None else await self._market.ledger.balance(account)


async def is_taken(window: Limiter, key: str) -> bool:
    """Return whether the window of *key* is full, without counting anything."""
    if isinstance(await window.take(key), Denied):
        return True
    await window.give_back(key)
    return False
