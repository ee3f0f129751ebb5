"""Limits on payments that fail: the number that each client may send during a flood."""

from dataclasses import dataclass, field
from typing import Final

import pytest

from mintscope.kit.clock import ManualClock
from mintscope.kit.limits import MemoryLimits
from mintscope.kit.primitives import UnixMs, Wallet
from mintscope.payments.trials import Networks, Trials, networks_of

PER_MINUTE: Final = 120  # 60 for anyone, 12 of them of a network; 30 for buyers, 30 for others
ALICE: Final = Wallet("alice")


@dataclass
class Book:
    """A store of earlier buyers, in memory; counts the lookups."""

    wallets: set[Wallet] = field(default_factory=set)
    addresses: set[str] = field(default_factory=set)
    reads: int = 0

    async def has_bought(self, payer: Wallet) -> bool:
        self.reads += 1
        return payer in self.wallets

    async def has_bought_from(self, address: str) -> bool:
        self.reads += 1
        return address in self.addresses


class Door:
    """Limits of failed payments per network, with a clock and earlier buyers that a test sets."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self.clock = ManualClock(UnixMs(1_700_000_000_000))
        self.book = Book()
        self.refused = 0
        self.trials = Trials(
            MemoryLimits(self.clock), per_minute, buyers=self.book, on_refused=self.note
        )

    def note(self) -> None:
        self.refused += 1

    async def try_out(self, address: str, payer: Wallet | None = None, times: int = 1) -> int:
        """Take *times* trials for a client, which all fail; return the number that was allowed."""
        found = [await self.trials.take(address, payer) for _ in range(times)]
        return sum(each is not None for each in found)

    async def flood(self, count: int = 200) -> int:
        """Let each of *count* networks fail 40 times; return the number of allowed trials."""
        return sum([await self.try_out(f"10.{n}.0.1", times=40) for n in range(count)])


@pytest.mark.parametrize("is_by_wallet", [True, False])
async def test_a_minute_allows_at_most_its_limit_of_trials(*, is_by_wallet: bool) -> None:
    door = Door()
    wallets = [Wallet(f"w{n}") for n in range(100)]
    addresses = [f"11.{n}.0.1" for n in range(100)]
    door.book.wallets |= set(wallets) if is_by_wallet else set()
    door.book.addresses |= set() if is_by_wallet else set(addresses)
    assert await door.flood() == 60 + 30  # the 30 trials reserved for buyers are left
    buyers = zip(addresses, wallets, strict=True)
    assert sum([await door.try_out(*each, times=9) for each in buyers]) == 30
    assert door.refused == 200 * 40 + 100 * 9 - PER_MINUTE


async def test_one_network_may_use_only_its_share_of_a_minute() -> None:
    door = Door()
    neighbours = [f"192.0.2.{n}" for n in range(200)]
    let_through = sum([await door.try_out(each, times=3) for each in neighbours])
    assert let_through == 12 + 2  # its share of the trials for anyone, and for newcomers
    assert await door.try_out("198.51.100.1", times=12) == 12


async def test_newcomers_are_allowed_during_a_flood() -> None:
    """Some trials are reserved for newcomers; each network of the flood has used its share."""
    door = Door()
    assert await door.flood(count=10) == 60 + 2 * 10
    assert await door.try_out("198.51.100.1", times=5) == 2
    assert await door.try_out("198.51.100.2") == 0  # its neighbour: trials are counted by network
    assert await door.try_out("2001:db8:1:2::/64", times=5) == 2
    assert await door.try_out("2001:db8:1:3::/64") == 0
    assert await door.try_out("2001:db8:2:2::/64", times=5) == 2


async def test_an_attacker_gets_few_of_the_reserved_trials_in_an_hour() -> None:
    door = Door()
    assert await door.flood(count=5) == 60 + 10
    for _ in range(59):
        door.clock.advance(60_000)
        assert await door.flood(count=5) == 60
    assert await door.try_out("198.51.100.1") == 1
    door.clock.advance(60_000)
    assert await door.flood(count=5) == 60 + 10


async def test_networks_of_one_region_share_a_limit_in_an_hour() -> None:
    door = Door(per_minute=1_200)
    for n in range(60):
        await door.try_out(f"10.{n}.0.1", times=40)  # uses up the 600 trials for anyone
    found = sum([await door.try_out(f"2001:db8:{n:x}::/64", times=9) for n in range(100)])
    assert found == 20
    door.clock.advance(60_000)
    for n in range(100, 160):
        await door.try_out(f"10.{n}.0.1", times=40)
    assert await door.try_out("2001:db8:ff::/64") == 0  # the region has its share of this hour
    assert await door.try_out("2001:db9:1::/64") == 1


@pytest.mark.parametrize("is_by_wallet", [True, False])
async def test_buyers_are_allowed_during_a_flood(*, is_by_wallet: bool) -> None:
    door = Door()
    await door.flood()
    assert await door.try_out("192.0.2.1", ALICE) == 0
    if is_by_wallet:
        door.book.wallets.add(ALICE)
    else:
        door.book.addresses.add("192.0.2.1")
    assert await door.try_out("192.0.2.1", ALICE, times=9) == 3
    door.clock.advance(60_000)
    await door.flood()
    assert await door.try_out("192.0.2.1", ALICE) == 0  # the buyer has its share of this hour
    assert await door.try_out("192.0.2.2", Wallet("mallory")) == 0


async def test_a_wallet_without_a_checked_signature_gets_no_share_of_buyers() -> None:
    door = Door()
    await door.flood()
    door.book.wallets.add(ALICE)
    assert await door.try_out("192.0.2.1", None) == 0
    assert await door.try_out("192.0.2.1", ALICE) == 1


async def test_trials_that_succeed_do_not_count() -> None:
    door = Door()
    for _ in range(1_000):
        counted = await door.trials.take("192.0.2.1", ALICE)
        assert counted is not None
        await counted.give_back()
    await door.flood()
    door.book.wallets.add(ALICE)
    for _ in range(1_000):
        counted = await door.trials.take("192.0.2.1", ALICE)
        assert counted is not None
        await counted.give_back()


async def test_the_store_is_not_read_until_a_minute_is_used_up() -> None:
    door = Door()
    assert await door.try_out("192.0.2.1", ALICE, times=12) == 12
    assert door.book.reads == 0


async def test_a_limit_of_three_trials_reserves_none_for_buyers() -> None:
    door = Door(per_minute=3)
    door.book.wallets.add(ALICE)
    assert await door.try_out("192.0.2.1", ALICE, times=9) == 3
    assert door.book.reads == 0


async def test_a_buyer_may_use_all_of_four_trials() -> None:
    door = Door(per_minute=4)
    door.book.wallets.add(ALICE)
    assert await door.try_out("192.0.2.1", ALICE, times=9) == 4


async def test_a_network_has_at_least_ten_trials_of_a_small_limit() -> None:
    door = Door(per_minute=40)
    assert await door.try_out("192.0.2.1", times=30) == 10 + 2


@pytest.mark.parametrize(
    ("address", "networks"),
    [
        ("192.0.2.77", Networks("192.0.2.0/24", "192.0.0.0/16")),
        ("2001:db8:1:2::/64", Networks("2001:db8:1::/48", "2001:db8::/32")),
        ("-", Networks("-", "-")),
    ],
)
def test_the_networks_of_a_client_follow_from_its_address(address: str, networks: Networks) -> None:
    assert networks_of(address) == networks
