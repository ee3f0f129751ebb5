"""Readers of the page of a token: everyone, those with a view left today, or payers of a credit.

A view is of one token, for a quarter of an hour, in every timeframe.  A paid view is kept
where limits are, and so is the same in every process.
"""

from enum import Enum, auto
from typing import Final

from mintscope.base.limits import Denied, Limit, Limiter, LimitKey, take_all
from mintscope.base.primitives import Mint
from mintscope.base.time import MINUTE_S
from mintscope.core.accounts.holdings.account_credits import AccountCredits
from mintscope.core.accounts.user import UserId
from mintscope.core.credits.ledger import Spent
from mintscope.edges.server.free_views import FreeViews
from mintscope.edges.web.market import MarketParts
from mintscope.edges.web.routes import PageRequest

VIEW_S: Final = 15 * MINUTE_S
BOUGHT: Final = Limit(name="views that were bought", count=1, window_s=VIEW_S)
TAKEN: Final = Limit(name="free views that last", count=1, window_s=VIEW_S)


class Admission(Enum):
    """Why a page is shown; NONE: it is not."""

    FREE = auto()  # everyone sees it
    ALLOWED = auto()  # by a free view of today
    BOUGHT = auto()  # by a credit
    NONE = auto()


class Views:
    """The views of all people and addresses."""

    def __init__(self, market: MarketParts, accounts: AccountCredits) -> None:
        self._market = market
        self._accounts = accounts
        make = market.limits.limiter
        self._bought, self._taken = make(BOUGHT), make(TAKEN)
        self._free = FreeViews.of(market.free_views_per_day, make)

    async def admit(self, request: PageRequest, mint: Mint) -> Admission:
        """Admit *request* to the page of *mint*, by one of the free views if nothing else does."""
        admission = await self.standing(request, mint)
        if admission is not Admission.NONE or self._market.free_views_per_day == 0:
            return admission
        address = request.browser.address
        lasting = (self._taken, f"{address} {mint}")
        denied = await take_all([*self._free.windows(address), lasting])
        return Admission.NONE if denied else Admission.ALLOWED

    async def free_left(self, request: PageRequest) -> int:
        """Return how many free views the client address of *request* has left today."""
        windows = self._free.windows(request.browser.address)
        return min([await _room(window, key) for window, key in windows])

    async def standing(self, request: PageRequest, mint: Mint) -> Admission:
        """Return by what *request* sees the page of *mint* already."""
        if self._market.is_free(mint):
            return Admission.FREE
        session = request.session
        if session is not None and await _is_taken(self._bought, f"{session.user.user_id} {mint}"):
            return Admission.BOUGHT
        if await _is_taken(self._taken, f"{request.browser.address} {mint}"):
            return Admission.ALLOWED
        return Admission.NONE

    async def buy(self, user_id: UserId, mint: Mint) -> bool:
        """Spend a credit of a user on a view of *mint*, unless one lasts; False: there is none.

        Raises ServiceUnavailable, and nothing is spent.
        """
        window = self._bought
        key = f"{user_id} {mint}"
        if isinstance(await window.take(key), Denied):
            return True
        is_bought = False
        try:
            account = await self._accounts.find(user_id)
            if account is not None:
                is_bought = isinstance(await self._market.ledger.spend(account), Spent)
        finally:
            if not is_bought:
                await window.give_back(key)
        return is_bought

    async def credits_of(self, user_id: UserId) -> int:
        """Return how many credits a user has."""
        account = await self._accounts.find(user_id)
        return 0 if account is None else await self._market.ledger.balance(account)


async def _room(window: Limiter, key: LimitKey) -> int:
    """Return how much room the window of *key* has; nothing is counted."""
    verdict = await window.take(key)
    if isinstance(verdict, Denied):
        return 0
    await window.give_back(key)
    return verdict.remaining + 1


async def _is_taken(window: Limiter, key: str) -> bool:
    """Say whether the window of *key* has no room; nothing is counted."""
    if isinstance(await window.take(key), Denied):
        return True
    await window.give_back(key)
    return False
