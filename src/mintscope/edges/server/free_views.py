"""The free views of tokens of a client address: pages and trials count together."""

from collections.abc import Callable
from dataclasses import dataclass

from mintscope.base.limits import SITE_SHARES, Limit, Limiter, LimitKey, site_key
from mintscope.base.time import DAY_S

Windows = list[tuple[Limiter, LimitKey]]


@dataclass(frozen=True, slots=True)
class FreeViews:
    """The views of a day: *per_day* of a client address, four times as many of an IPv6 /48."""

    of_client: Limiter
    of_site: Limiter

    @classmethod
    def of(
        cls, per_day: int, make: Callable[[Limit], Limiter], *, name: str = "free views"
    ) -> "FreeViews":
        """Return the views that *make* counts under *name*; all of one name count together."""
        day = Limit(name=name, count=per_day, window_s=DAY_S)
        of_site = Limit(name=f"{name} of a site", count=SITE_SHARES * per_day, window_s=DAY_S)
        return cls(make(day), make(of_site))

    def windows(self, address: str) -> Windows:
        """Return what a view by *address* is counted in."""
        return [(self.of_site, site_key(address)), (self.of_client, address)]
