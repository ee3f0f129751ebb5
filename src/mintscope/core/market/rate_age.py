"""The time since SOL was traded against a dollar: without such trades swaps get no price."""

from typing import Final

from mintscope.base.primitives import UnixS
from mintscope.base.time import MINUTE_S

# SOL trades in every block.  Swaps are priced at the rate of the last minute; after it they set no
# price and add no volume.  The check reports it earlier.
RATE_LATE_S: Final = MINUTE_S // 2


class RateAge:
    """Follows the rate from slot to slot, by the time of the chain."""

    def __init__(self) -> None:
        self._since: UnixS | None = None
        self._newest: UnixS | None = None

    def note(self, time: UnixS, rated_at: UnixS | None) -> None:
        """Note a slot.

        time       of the slot
        rated_at   of the newest trade behind its rate; None: it has none
        """
        if rated_at is not None:
            self._since = rated_at
        elif self._since is None:
            self._since = time
        self._newest = time

    @property
    def seconds(self) -> int:
        """Return the time from the last trade, or from the first slot, to the newest slot."""
        if self._since is None or self._newest is None:
            return 0
        return max(0, self._newest - self._since)

    @property
    def is_late(self) -> bool:
        """Return whether swaps have no price, now or soon, because there is no rate."""
        return self.seconds > RATE_LATE_S
