"""Rules that decide for each swap whether it sets the price, to compare mintscope's with others."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec.structs import replace
from typing_extensions import override

from mintscope.market.standing import Offer, Standing, stand

MINUTE_S: Final = 60
FRACTION: Final = 1 / 8


class Rule(Protocol):
    """A rule that decides which swaps set the price of one mint, with its state."""

    def sets_price(self, offer: Offer) -> bool:
        """Return whether *offer*, the next swap of the mint, sets its price."""


class FirstVolume:
    """The rule of decision 18: the pool with the most volume in ten minutes decides the price.

    It is implemented from the text of the decision, because its first code was removed.
    """

    def __init__(self) -> None:
        self._pool = ""
        self._previous = ""
        self._price = self._pause_s = 0.0
        self._at = self._since = self._until = self._lead = 0

    def sets_price(self, offer: Offer) -> bool:
        """Return whether *offer*, the next swap of the mint, sets its price.

        In the first ten minutes, each swap does.  Later, a swap does if its pool decides, if its
        price is near that of the deciding pool, or if there was no trade for a long time.
        """
        if not self._pool:
            self._begin(offer)
            self._lead = offer.volume
            return True
        if offer.time - self._since < 600:
            self._weigh(offer)
            return True
        silent_s = offer.time - self._at
        is_new_start = silent_s > max(3_600, min(86_400, 100 * self._pause_s))
        if offer.pool == self._pool:
            self._trade(offer)
            return True
        if offer.pool == self._previous and offer.time <= self._until:
            self._pool, self._previous = offer.pool, ""
            self._trade(offer)
            return True
        apart = max(offer.usd / self._price, self._price / offer.usd)
        if apart > 1.05 + 0.01 * silent_s / MINUTE_S and not is_new_start:
            return False
        if is_new_start:
            self._begin(offer)
        elif silent_s > max(30, min(86_400, 10 * self._pause_s)):
            self._previous, self._until = self._pool, offer.time + 86_400
            self._pool, self._price, self._at, self._pause_s = offer.pool, offer.usd, offer.time, 0
        return True

    def _begin(self, offer: Offer) -> None:
        self._pool, self._price, self._pause_s = offer.pool, offer.usd, 0.0
        self._at = self._since = offer.time

    def _weigh(self, offer: Offer) -> None:
        if offer.pool == self._pool:
            self._lead += offer.volume
            self._trade(offer)
            return
        self._lead -= offer.volume
        if self._lead < 0:
            self._lead, since = -self._lead, self._since
            self._begin(offer)
            self._since = since

    def _trade(self, offer: Offer) -> None:
        self._pause_s += (offer.time - self._at - self._pause_s) / 4
        self._price, self._at = offer.usd, offer.time


class Weighed(ABC):
    """A rule: a price must be near the weighted median of pools, or near the heaviest one.

    It must be within 2 %, and its pool must have at least FRACTION of the largest weight.
    """

    def __init__(self, *, is_deepest: bool = False) -> None:
        self._last: dict[str, Offer] = {}
        self._is_deepest = is_deepest

    @abstractmethod
    def weight(self, pool: str, time: int) -> float:
        """Return the weight of *pool* at *time*."""

    def sets_price(self, offer: Offer) -> bool:
        """Return whether *offer*, the next swap of the mint, sets its price.

        Its pool must weigh enough, and its price must be within 2 % of the median or heaviest pool.
        """
        self._last[offer.pool] = offer
        weighed = [(one.usd, self.weight(pool, offer.time)) for pool, one in self._last.items()]
        most = max(weight for _, weight in weighed)
        if self.weight(offer.pool, offer.time) < FRACTION * most:
            return False
        if self._is_deepest:
            middle = max(weighed, key=lambda one: one[1])[0]
        else:
            middle = _median([one for one in weighed if one[1] >= FRACTION * most])
        return max(offer.usd / middle, middle / offer.usd) <= 1.02


class ByVolume(Weighed):
    """A rule: a price must be near the median of pools, weighed by their volume of ten minutes.

    One signer counts for at most a tenth of that volume.
    """

    def __init__(self) -> None:
        super().__init__()
        self._recent: dict[str, deque[Offer]] = {}

    @override
    def sets_price(self, offer: Offer) -> bool:
        """Add *offer*, the next swap, to its pool's volume; return whether it sets the price."""
        self._recent.setdefault(offer.pool, deque()).append(offer)
        return super().sets_price(offer)

    @override
    def weight(self, pool: str, time: int) -> float:
        """Return the volume of *pool* in ten minutes, in which each signer has at most a tenth."""
        kept = self._recent[pool]
        while kept and time - kept[0].time > 600:
            kept.popleft()
        signers: dict[str, int] = {}
        for one in kept:
            signers[one.signer] = signers.get(one.signer, 0) + one.volume
        cap = sum(signers.values()) / 10
        return sum(min(volume, cap) for volume in signers.values())


class ByDepth(Weighed):
    """A rule: a price must be near the median of pools, weighed by their newest depths.

    If *is_deepest*, it must be near the price of the deepest pool instead.
    """

    @override
    def weight(self, pool: str, time: int) -> float:
        """Return the newest depth of *pool*; 0 after an hour without a swap."""
        last = self._last[pool]
        return float(last.depth or 0) if time - last.time <= 3_600 else 0.0


class ByStanding:
    """The rule by which mintscope chooses the swaps that set a price: decision 60.

    curves   by pool, the address of the bonding curve that the pool replaces
    """

    def __init__(self, curves: Mapping[str, str] | None = None) -> None:
        self._standing: Standing | None = None
        self._curves = dict(curves or {})

    def sets_price(self, offer: Offer) -> bool:
        """Return whether *offer*, the next swap of the mint, sets its price.

        Its pool must count, and must be near the median of the pools after the swap.
        """
        curve = self._curves.pop(offer.pool, None)
        if curve is not None:
            self._standing, _ = stand(self._standing, replace(offer, succeeds=curve))
        self._standing, sets = stand(self._standing, offer)
        return sets


def _median(weighed: list[tuple[float, float]]) -> float:
    half = sum(weight for _, weight in weighed) / 2
    below = 0.0
    for price, weight in sorted(weighed):
        below += weight
        if below >= half:
            return price
    raise AssertionError("some weight is at least half of all")


RULES: Final[dict[str, Callable[[], Rule]]] = {
    "first volume (decision 18)": FirstVolume,
    "median by volume": ByVolume,
    "deepest pool": lambda: ByDepth(is_deepest=True),
    "median by depth": ByDepth,
    "median by lasting reserves": ByStanding,
}
