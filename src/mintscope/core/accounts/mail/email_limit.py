"""Pauses between letters that somebody asks for: the longer, the more often it is asked."""

from typing import Final

from mintscope.base.limits import Denied, Limit, LimitKey, Limits
from mintscope.base.time import DAY_S, HOUR_S

ADMITTED: Final = (
    Limit(name="letters in five minutes", count=1, window_s=300),
    Limit(name="letters in an hour", count=3, window_s=HOUR_S),
    Limit(name="letters in a day", count=5, window_s=DAY_S),
)


class EmailLimit:
    """Admits a letter five minutes after the one before, three in an hour, five in a day."""

    def __init__(self, limits: Limits) -> None:
        self._windows = [limits.limiter(limit) for limit in ADMITTED]

    async def take(self, key: LimitKey) -> bool:
        """Admit a letter of *key* and count it; False, and nothing is counted: it is too early."""
        for number, window in enumerate(self._windows):
            if isinstance(await window.take(key), Denied):
                for taken in self._windows[:number]:
                    await taken.give_back(key)
                return False
        return True

    async def give_back(self, key: LimitKey) -> None:
        """Count a letter of *key* less: it was not written."""
        for window in self._windows:
            await window.give_back(key)
