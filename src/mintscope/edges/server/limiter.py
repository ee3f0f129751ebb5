"""The limits of the api's routes; `mintscope.base.limits` has the windows."""

from typing import Final

from mintscope.base.limits import (
    KEYS_MAX,
    Admitted,
    Denied,
    Limit,
    Limiter,
    LimitKey,
    MovingWindow,
)

__all__ = [
    "HEALTH",
    "KEYS_MAX",
    "PUBLIC",
    "Admitted",
    "Denied",
    "Limit",
    "LimitKey",
    "Limiter",
    "MovingWindow",
]

PUBLIC: Final = Limit(name="public", count=30, window_s=60)
HEALTH: Final = Limit(name="health", count=120, window_s=60)
