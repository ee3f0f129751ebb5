"""Limits on simulations of payments that fail, by sender.

The node simulates a payment before it is known to be valid, and payers can be invented.  So the
failed simulations (trials) of all clients in a minute are limited; the limit has three parts:

    all       a half, for anyone; one network can use at most a tenth of all trials, or
              NETWORK_COUNT_MIN if that is more
    buyers    a quarter, for wallets and IP addresses that have paid before, a few an hour each
    others    a quarter, for anyone, a few an hour for each network

The second and third part are used when the first allows no trial, so that a flood of failing
payments shuts out neither buyers nor new clients.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from typing import Final, NamedTuple, Protocol

from mintscope.kit.limits import Limit, Limiter, LimitKey, Limits, take_all
from mintscope.kit.primitives import Wallet
from mintscope.kit.time import HOUR_S, MINUTE_S

KEPT_PARTS: Final = 4  # parts of all trials; one part is for buyers, one for others
NETWORK_PARTS: Final = 10  # parts of all trials; one network can use one part
NETWORK_COUNT_MIN: Final = 10
BUYER_TRIALS: Final = 3  # trials in an hour of a wallet or an address that has paid
NETWORK_TRIALS: Final = 2  # trials in an hour of a network whose clients have not paid
REGION_TRIALS: Final = 20  # trials in an hour of all networks that may be of one provider
ALL: Final = "all"

Windows = Sequence[tuple[Limiter, LimitKey]]


class Buyers(Protocol):
    """Looks up earlier buyers.  Raises ServiceUnavailable if the store does not answer."""

    async def has_bought(self, payer: Wallet) -> bool:
        """Return whether *payer* ever made a payment whose purchase was delivered."""

    async def has_bought_from(self, address: str) -> bool:
        """Return whether a client at *address* ever made a payment whose purchase was delivered."""


class Networks(NamedTuple):
    """The networks that a client's IP address belongs to, as text.

    near    possibly of one customer: an IPv4 /24 or an IPv6 /48
    wide    possibly of one provider: an IPv4 /16 or an IPv6 /32
    """

    near: str
    wide: str


def networks_of(address: str) -> Networks:
    """Return the networks of *address*, an IPv4 address or an IPv6 /64.

    For any other text, both networks are the text itself.
    """
    try:
        network = ip_network(address)
    except ValueError:
        return Networks(address, address)
    near, wide = (24, 16) if isinstance(network, IPv4Network) else (48, 32)
    return Networks(*(str(network.supernet(new_prefix=length)) for length in (near, wide)))


@dataclass(frozen=True, slots=True)
class Counted:
    """A simulation within the limit of failed simulations, which counts it until `give_back`."""

    windows: Windows

    async def give_back(self) -> None:
        """No longer count the simulation as failed, because it succeeded."""
        for limiter, key in self.windows:
            await limiter.give_back(key)


class Trials:
    """Limits simulations of payments that fail, for each sender and for all clients together.

    per_minute    number of failed simulations allowed in a minute, for all clients together
    on_refused    called for each simulation that is refused
    """

    def __init__(
        self,
        limits: Limits,
        per_minute: int,
        *,
        buyers: Buyers,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        kept = per_minute // KEPT_PARTS

        def limiter(name: str, count: int, window_s: int = MINUTE_S) -> Limiter:
            return limits.limiter(Limit(name=f"trials {name}", count=count, window_s=window_s))

        self._all = limiter("of all", per_minute - 2 * kept)
        self._network = limiter("of a network", max(per_minute // NETWORK_PARTS, NETWORK_COUNT_MIN))
        self._keeps_some = bool(kept)  # a limiter needs a count above zero
        self._of_buyers = limiter("of buyers", max(kept, 1))
        self._of_others = limiter("of others", max(kept, 1))
        self._buyer = limiter("of a buyer", BUYER_TRIALS, HOUR_S)
        self._other = limiter("of a network in an hour", NETWORK_TRIALS, HOUR_S)
        self._region = limiter("of a region in an hour", REGION_TRIALS, HOUR_S)
        self._buyers = buyers
        self._on_refused = on_refused

    async def take(self, address: str, payer: Wallet | None = None) -> Counted | None:
        """Count one simulation as failed, before its result is known.

        Return it, to give it back after a success; None if the limit is reached.

        address    the client's address: an IPv4 address, an IPv6 /64, or other text
        payer      the wallet, if its signature was checked; None otherwise
        Raises     ServiceUnavailable if the store does not answer
        """
        common: Windows = [(self._network, networks_of(address).near), (self._all, ALL)]
        if await take_all(common) is None:
            return Counted(common)
        # Only if the first part is full, because this looks up buyers in the store.
        for windows in await self._kept(address, payer):
            if await take_all(windows) is None:
                return Counted(windows)
        self._on_refused()
        return None

    async def _kept(self, address: str, payer: Wallet | None) -> Sequence[Windows]:
        """Return the limits that are reserved for buyers and others, for one simulation."""
        if not self._keeps_some:
            return []
        found = list[Windows]()
        if payer is not None and await self._buyers.has_bought(payer):
            found.append([(self._buyer, f"wallet {payer}"), (self._of_buyers, ALL)])
        if await self._buyers.has_bought_from(address):
            found.append([(self._buyer, f"address {address}"), (self._of_buyers, ALL)])
        near, wide = networks_of(address)
        found.append([(self._other, near), (self._region, wide), (self._of_others, ALL)])
        return found
