"""Watching the rate of SOL as blocks are read: a metric, and a line when it goes and comes back."""

import structlog

from mintscope.base.metrics import SOL_RATE_AGE_S
from mintscope.core.market.log import SlotHeader
from mintscope.core.market.rate_age import RateAge

log = structlog.get_logger()


class RateWatch:
    """Looks at each slot that joins the log."""

    def __init__(self) -> None:
        self._age = RateAge()
        self._longest_s: int | None = None  # while it is late

    def note(self, header: SlotHeader) -> None:
        """Note the slot of *header*, and log if the rate has gone or come back."""
        self._age.note(header.time, header.sol_usd_time)
        SOL_RATE_AGE_S.set(self._age.seconds)
        if self._age.is_late:
            if self._longest_s is None:
                log.warning("sol_rate_missing", slot=header.slot, age_s=self._age.seconds)
            self._longest_s = self._age.seconds
        elif self._longest_s is not None:
            log.info("sol_rate_back", slot=header.slot, after_s=self._longest_s)
            self._longest_s = None
