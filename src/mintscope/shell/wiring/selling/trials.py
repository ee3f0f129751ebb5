"""A limit of payments that ask the chain and come to nothing, counted where it refuses."""

from mintscope.base.limits import Admitted, Denied, Limit, Limiter, LimitKey, Limits
from mintscope.base.metrics import TRIALS_REFUSED
from mintscope.base.time import MINUTE_S


class CountedTrials:
    """Implements Limiter: what it refuses shows in a metric."""

    def __init__(self, limiter: Limiter) -> None:
        self.limit = limiter.limit
        self._limiter = limiter

    async def take(self, key: LimitKey) -> Admitted | Denied:
        """Admit one trial if there is room for it, and count it."""
        verdict = await self._limiter.take(key)
        if isinstance(verdict, Denied):
            TRIALS_REFUSED.inc()
        return verdict

    async def give_back(self, key: LimitKey) -> None:
        """Count one trial less: it succeeded."""
        await self._limiter.give_back(key)


def trials_of(limits: Limits, per_minute: int) -> CountedTrials:
    """Return what counts trials that fail."""
    limit = Limit(name="failed trials", count=per_minute, window_s=MINUTE_S)
    return CountedTrials(limits.limiter(limit))
