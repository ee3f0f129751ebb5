"""A budget for writes other than money, of each account and of all accounts together.

A request that it refuses has written nothing.  Requests that credits pay for are not counted: a
ledger that refuses is worse than one that grows.  Moves of credits have limits of their own.
"""

from typing import Final

from mintscope.base.errors import RateLimited
from mintscope.base.limits import Denied, Limit, Limits, take_all
from mintscope.base.metrics import ACCOUNT_WRITES
from mintscope.base.time import DAY_S, MINUTE_S

WRITES: Final = Limit(name="account writes", count=500, window_s=DAY_S)
WRITES_OF_ALL: Final = Limit(name="account writes of all", count=600, window_s=MINUTE_S)
ALL: Final = "all"


class WriteBudget:
    """Counts writes of accounts; two of the same limits count together."""

    def __init__(
        self, limits: Limits, *, of_account: Limit = WRITES, of_all: Limit = WRITES_OF_ALL
    ) -> None:
        self._account = limits.limiter(of_account)
        self._all = limits.limiter(of_all)

    async def spend(self, user_id: int, by: str) -> None:
        """Count a write of an account.  Raises RateLimited.

        by    "key" or "page", for the metric
        """
        verdict = await take_all([(self._account, user_id), (self._all, ALL)])
        if isinstance(verdict, Denied):
            ACCOUNT_WRITES.labels(by, "refused").inc()
            raise RateLimited(verdict.retry_after_s)
        ACCOUNT_WRITES.labels(by, "made").inc()
