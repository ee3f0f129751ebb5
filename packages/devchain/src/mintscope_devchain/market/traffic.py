"""Makes the transactions of the simulated market, block by block.

Traders move pools towards the price of their token, and some trade at random.  Amounts depend on
the reserves of the pools.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from math import exp, log
from random import Random
from typing import Final

from mintscope.kit.primitives import Slot, UnixS
from mintscope.kit.time import MINUTE_S
from mintscope_devchain.addresses import raw
from mintscope_devchain.market.listing import DOLLAR, SOL
from mintscope_devchain.market.noise import Noise
from mintscope_devchain.market.pool import VIRTUAL_BASE, VIRTUAL_QUOTE, Fill, Pool, Venue
from mintscope_devchain.market.prices import Prices
from mintscope_devchain.market.world import Listed, World
from mintscope_devchain.shapes import order, pumpfun
from mintscope_devchain.shapes.pumpfun import RESERVED_BASE
from mintscope_devchain.transaction import OTHER_RENT, MarketTransaction, Submission

NOISE: Final = 0.0012  # the usual share of the reserves that a random trade exchanges
SHARE_MIN = 0.0004
SHARE_MAX = 0.03
GAP_MIN: Final = 0.006  # if the pool deviates less from the target price, trades are random
DUST: Final = 0.002
DUST_AMOUNTS: Final = (200, 1_000)
# The least amount that a pool pays, in raw units: fees, rounded up, would exceed smaller amounts
PAID_MIN: Final = 10
ROUTED: Final = 0.18
FAILED: Final = 0.3  # the probability that a block has a failed route, if a route is possible
WRAPPED: Final = 0.3
TIPPED: Final = 0.2
TIPS: Final = (1_000, 2_000_000)
UNIT_PRICES: Final = (1_000, 200_000)
AFFORDABLE: Final = 0.9  # the share of its balance that a trader can spend; the rest is for fees
# In a market of even pace: swaps a minute for each expected swap in a block of the history
EVEN: Final = 4.0
# The most swaps of a token in a block, in a market of even pace; more volume makes them larger
MOST: Final = 2
# The least size of a swap of SOL in such a block: enough to set the rate of SOL
SOL_SIZE_MIN: Final = 1 / 60


class Traffic:
    """Makes the transactions of the simulated market, block by block."""

    def __init__(
        self,
        world: World,
        random: Random,
        *,
        opens: UnixS,
        has_votes: bool,
        is_even: bool = False,
    ) -> None:
        """Create the source of a market's transactions.

        opens       the time at which the history ends and live blocks begin
        has_votes   whether blocks have votes
        is_even     whether about as much is traded in a minute after *opens* as before
        """
        self._is_even = is_even
        self._world = world
        self._random = random
        self._opens = opens
        self._prices = Prices(world, random)
        self._noise = Noise(world, random, has_votes=has_votes)

    def block(
        self, slot: Slot, at: UnixS, parent: str, after_s: float
    ) -> tuple[MarketTransaction, ...]:
        """Apply and return the transactions of the block at *slot*.

        at        the time of the block
        parent    the hash of its parent block
        after_s   the seconds since its parent block
        """
        self._prices.advance(after_s)
        intents: list[Callable[[], Iterable[MarketTransaction]]] = []
        for listed in self._world.listed:
            count, size = self._pace(listed, at, after_s)
            intents += [partial(self._trade, listed, at, size)] * count
        sol_size = max(SOL_SIZE_MIN, after_s / MINUTE_S) if self._is_even else 1.0
        intents.append(partial(self._trade_sol, at, sol_size))
        intents.append(partial(self._noise.transactions, slot, at, raw(parent)))
        if self._random.random() < FAILED:
            intents.append(partial(self._fail, at))
        self._random.shuffle(intents)
        # Migrations come before all trades, so that the trades of this block use the new pool.
        intents[:0] = [partial(self._graduate, each, at) for each in self._world.listed]
        return tuple(transaction for intent in intents for transaction in intent())

    def _pace(self, listed: Listed, at: UnixS, after_s: float) -> tuple[int, float]:
        """Return the number of swaps of a token in the next block, and the size of each.

        The size is a multiple of the usual size.
        """
        listing = listed.listing
        age = self._opens - at
        if listing.born is not None and age > listing.born:
            return 0, 1.0
        if listing.died is not None and age < listing.died:
            return 0, 1.0
        expected = listing.history if age >= 0 else listing.live
        size = 1.0
        if self._is_even:
            expected = listing.history * EVEN * after_s / MINUTE_S
            size = max(1.0, expected / MOST)
            expected = min(expected, MOST)
        return int(expected) + (self._random.random() < expected % 1), size

    def _graduate(self, listed: Listed, at: UnixS) -> Iterator[MarketTransaction]:
        """If due, yield the transaction that moves a token from its bonding curve to its pool."""
        listing = listed.listing
        world = self._world
        if listing.graduates is None or self._opens - at > listing.graduates:
            return
        if not listed.is_on_curve(world.balances):
            return
        curve, pool, *_ = listed.pools
        base, quote = curve.reserves(world.balances)
        lamports = world.balances[curve.quote_vault] - OTHER_RENT
        amounts = (min(world.balances[curve.base_vault], lamports * base // quote), lamports)
        payer = world.providers[0]
        build = partial(pumpfun.migrate, curve, pool, payer, amounts)
        yield world.transact(lambda: (build(),), Submission(payer))

    def _trade_sol(self, at: UnixS, size: float) -> Iterator[MarketTransaction]:
        """Yield one swap of SOL and dollars, from which the block's price of SOL follows."""
        fill = None
        while fill is None:
            fill = self._fill(self._random.choice(self._world.sol_pools), 0.5, at, size, dust=0)
        yield self._direct(fill)

    def _trade(self, listed: Listed, at: UnixS, size: float) -> Iterator[MarketTransaction]:
        fill = self._fill(self._choose(listed), listed.listing.buys, at, size)
        if fill is None:
            return
        legs = self._legs(fill) if self._random.random() < ROUTED else None
        yield self._direct(fill) if legs is None else self._route(legs)

    def _fail(self, at: UnixS) -> Iterator[MarketTransaction]:
        """Yield a transaction with a route through pools that fails, and costs only its fee.

        Yield nothing if no route is possible.
        """
        listed = self._random.choice(self._world.listed)
        fill = self._fill(self._choose(listed), listed.listing.buys, at, 1.0)
        legs = None if fill is None else self._legs(fill)
        if legs is not None:
            yield self._route(legs, failed_at=order.ROUTE_POSITION)

    def _choose(self, listed: Listed) -> Pool:
        """Return a random pool of *listed*; an earlier pool is more likely, because it is larger.

        A token that is to leave its curve trades on the curve until then, and later in its next
        pool.
        """
        if listed.listing.graduates is not None:
            return listed.pools[0 if listed.is_on_curve(self._world.balances) else 1]
        return self._random.choices(listed.pools, weights=range(len(listed.pools), 0, -1))[0]

    def _fill(
        self, pool: Pool, buys: float, at: UnixS, size: float, *, dust: float = DUST
    ) -> Fill | None:
        """Return a swap in *pool* that moves its price towards the target price, or a random swap.

        Return None if the trader or the pool cannot pay.

        buys   the share of buys among random swaps, 0 to 1
        size   the size of a random swap, as a multiple of the usual size
        dust   the probability that the trader pays a tiny amount instead
        """
        random = self._random
        base, quote = pool.reserves(self._world.balances)
        gap = log(self._prices.raw(pool.base, pool.quote) * base / quote)
        share = NOISE * size * random.lognormvariate(0, 1)
        is_buy = random.random() < buys
        if abs(gap) > GAP_MIN:
            # If most trades of a token are buys, few large sells balance many small buys.
            part = 2 * (1 - buys) if gap > 0 else 2 * buys
            # About the share of a reserve that a trade must pay to close the gap: paying the
            # share s multiplies or divides the price by (1 + s) ** 2.
            pull = abs(exp(gap / 2) - 1) * random.uniform(0.4, 1) * part
            if pull > share or is_buy is not (gap > 0):
                share = pull
                is_buy = gap > 0
        share = max(SHARE_MIN * min(1.0, size), min(SHARE_MAX, share))
        amount_in = int((quote if is_buy else base) * share)
        if random.random() < dust:
            amount_in = random.randrange(*DUST_AMOUNTS)
        pays = pool.quote if is_buy else pool.base
        trader = max(
            random.sample(self._world.wallets, 3),
            key=lambda wallet: self._world.balances[self._world.held(wallet, pays)],
        )
        return self._settle(pool, amount_in, at, trader, is_buy=is_buy)

    def _settle(
        self, pool: Pool, amount_in: int, at: UnixS, trader: str, *, is_buy: bool
    ) -> Fill | None:
        """Return a swap in which *trader* pays *amount_in* to *pool*.

        Return None if the trader or the pool cannot pay, or if the pool would pay less than
        PAID_MIN.
        """
        world = self._world
        reserves = pool.reserves(world.balances)
        amount_out = pool.amount_out(reserves, amount_in, is_buy=is_buy)
        pays, gets = (pool.quote, pool.base) if is_buy else (pool.base, pool.quote)
        source = world.held(trader, pays)
        target = world.held(trader, gets)
        if pool.venue is Venue.PUMP_FUN:
            source, target = (trader, target) if is_buy else (source, trader)
        if amount_out < PAID_MIN or amount_in > world.balances[source] * AFFORDABLE:
            return None
        fill = Fill(pool, trader, is_buy, amount_in, amount_out, reserves, source, target, at)
        return fill if _possible(fill) else None

    def _legs(self, fill: Fill) -> tuple[Fill, Fill] | None:
        """Return *fill* as two swaps of a route: from the token to SOL to dollars, or the reverse.

        Return None if no route can use the pool of *fill*, or if a swap cannot be made.
        """
        pool = fill.pool
        trader = fill.trader
        at = fill.at
        if pool.venue not in order.ROUTED or pool.quote is not SOL:
            return None
        sol_pool = self._random.choice(self._world.sol_pools)
        if not fill.is_buy:
            second = self._settle(sol_pool, fill.amount_out, at, trader, is_buy=False)
            return None if second is None else (fill, second)
        dollars = int(fill.amount_in * self._prices.raw(SOL, DOLLAR))
        first = self._settle(sol_pool, dollars, at, trader, is_buy=True)
        if first is None:
            return None
        second = self._settle(pool, first.amount_out, at, trader, is_buy=True)
        return None if second is None else (first, second)

    def _direct(self, fill: Fill) -> MarketTransaction:
        random = self._random
        wrapped = random.random() < WRAPPED and self._can_wrap(fill)
        tip = random.randrange(*TIPS) if random.random() < TIPPED else 0
        price = random.randrange(*UNIT_PRICES)
        return self._world.transact(
            partial(order.direct, fill, wrapped=wrapped, tip=tip, price=price),
            Submission(fill.trader, order.fee(price), version=random.choice((None, 0))),
        )

    def _can_wrap(self, fill: Fill) -> bool:
        if fill.pool.venue is Venue.PUMP_FUN:
            return False
        if fill.received is SOL:
            return fill.amount_in < self._world.balances[fill.trader] * AFFORDABLE
        return fill.paid is SOL

    def _route(self, legs: tuple[Fill, Fill], failed_at: int | None = None) -> MarketTransaction:
        price = self._random.randrange(*UNIT_PRICES)
        return self._world.transact(
            partial(order.routed, legs, price=price),
            Submission(legs[0].trader, order.fee(price), uses_table=True, failed_at=failed_at),
        )


def _possible(fill: Fill) -> bool:
    """Return whether the pool can pay *fill*; a bonding curve keeps some of its tokens."""
    if fill.pool.venue is not Venue.PUMP_FUN:
        return True
    base, quote = fill.after
    for_sale = base - VIRTUAL_BASE[Venue.PUMP_FUN] - RESERVED_BASE
    return for_sale > 0 and quote > VIRTUAL_QUOTE[Venue.PUMP_FUN]
