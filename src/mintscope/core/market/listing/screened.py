"""The numbers of all listed tokens by the names that conditions know them by."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mintscope.base.primitives import MICRO_USD, UnixS
from mintscope.core.market.basis.price_basis import (
    FRESH_S,
    HIGH_MICRO_USD,
    MEDIUM_MICRO_USD,
    OLD_S,
    YOUNG_S,
)
from mintscope.core.market.listing.averages import PLACES
from mintscope.core.market.screening.fields import LEVELS
from mintscope.core.market.timeframe import TIMEFRAMES, Timeframe

Floats = NDArray[np.float64]


class ScreenColumns:
    """A column for each of `screening.fields.FIELDS`, made when it is first asked for; NaN: none.

    They are as of one state of a list, and never change.
    """

    def __init__(
        self, rows: Any, known: Mapping[str, Floats], averages: Floats, now: UnixS | None
    ) -> None:
        """Take *known* columns, *averages* as `AverageColumns.shown` gives them, and from *rows*.

        rows   of `columns.ROW`, which may change afterwards
        """
        self._now = float("nan") if now is None else float(now)
        self._found: dict[str, Floats] = dict(known)
        self._averages = averages
        self._taken = {
            name: rows[name].copy()
            for name in ("counts", "h1_volume", "depth", "set_at", "set_since", "is_agreed")
        }

    def column(self, name: str) -> Floats:
        """Return the values of the field *name*."""
        found = self._found.get(name)
        if found is None:
            place = PLACES.get(name)
            found = self._made(name) if place is None else self._averages[place]
            self._found[name] = found
        return found

    def _made(self, name: str) -> Floats:
        match name:
            case "volume_h1":
                return dollars(self._taken["h1_volume"])
            case "liquidity":
                return dollars(self._taken["depth"])
            case "price_age_s":
                return self._ages()
            case "confidence":
                return self._confidence()
            case _:
                timeframe = Timeframe(name.removeprefix("candles_"))
                counts: Floats = self._taken["counts"][:, TIMEFRAMES.index(timeframe)] * 1.0
                return counts

    def _ages(self) -> Floats:
        ages: Floats = np.maximum(0.0, self._now - self._taken["set_at"])
        return ages

    def _confidence(self) -> Floats:
        """Return what `PriceBasis.confidence` says, as a number of LEVELS."""
        depth = self._taken["depth"]
        at = self._taken["set_at"]
        is_sure = self._taken["is_agreed"] & (at - self._taken["set_since"] >= YOUNG_S)
        age_s = self._now - at
        is_medium = is_sure & (depth >= MEDIUM_MICRO_USD) & (age_s <= OLD_S)
        is_high = is_sure & (depth >= HIGH_MICRO_USD) & (age_s <= FRESH_S)
        found = np.where(is_medium, LEVELS["medium"], LEVELS["low"])
        return np.where(is_high, LEVELS["high"], found)


def dollars(micro_usd: NDArray[Any]) -> Floats:
    """Return *micro_usd* in US dollars."""
    found: Floats = micro_usd / MICRO_USD
    return found
