"""Which mints are followed without being listed: those that trade enough.

Decided by the finalized fold, slot by slot: a pure function of the final chain.
"""

from typing import NamedTuple

import msgspec

from mintscope.base.primitives import UnixS
from mintscope.base.time import DAY_S


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """The least trade of a mint to be followed.

    swaps_min        in one UTC day of the market
    volume_min       in that day too, micro-USD
    dead_after_days  days below the floor until a followed mint is dropped
    """

    swaps_min: int
    volume_min: int
    dead_after_days: int

    def __post_init__(self) -> None:
        if min(self.swaps_min, self.volume_min, self.dead_after_days) < 1:
            raise ValueError(f"expected a floor of positive numbers; was {self}")


class Activity(NamedTuple):
    """The trade of a mint.

    day         the newest day it traded on, days since 1970
    swaps       of that day
    volume      of that day, micro-USD
    lively_day  the newest day it reached the floor
    """

    day: int
    swaps: int
    volume: int
    lively_day: int | None


def day_of(time: UnixS) -> int:
    """Return the UTC day of *time*, days since 1970."""
    return time // DAY_S


def count(before: Activity | None, *, day: int, swaps: int, volume: int, floor: Floor) -> Activity:
    """Return *before* with what one slot of *day* adds."""
    if before is not None and before.day == day:
        swaps += before.swaps
        volume += before.volume
    is_lively = swaps >= floor.swaps_min and volume >= floor.volume_min
    lively_day = day if is_lively else None if before is None else before.lively_day
    return Activity(day, swaps, volume, lively_day)


def is_lively(activity: Activity) -> bool:
    """Say whether the mint has reached the floor on its newest day."""
    return activity.lively_day == activity.day


def is_dead(activity: Activity, *, today: int, floor: Floor) -> bool:
    """Say whether the mint has been below the floor for too many whole days."""
    return activity.lively_day is None or today - activity.lively_day > floor.dead_after_days
