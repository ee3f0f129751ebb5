"""The price pools of a mint: their swaps set its price, because they are costly to imitate.

Anyone may open a pool and trade there alone, at any price and of any volume.  It is costly to leave
money in a pool where others can trade against it.

Weight    of a pool: the least quote in it over the last 30 to 60 s, but at most the amount that
          moves its price, as its own trades show.  A pool that is younger than the oldest trading
          pool weighs less in proportion.  A silent pool weighs an eighth, times the number of
          trading pools at other prices that may show the same money: see `median.py`
Silent    a pool is silent after LULLS_OF_SILENCE usual pauses, at least SILENCE_MIN_S and at most
          SILENCE_MAX_S, unless all pools that would then outweigh it are too young to replace it:
          no new pool may set the price during a pause
Price     of a mint: the median of its pools by weight, without pools of less than an eighth of the
          heaviest one's weight.  It is a range: the prices at 0.5 - TIE to 0.5 + TIE of the weight
A swap    sets the price if its pool counts and the swap leaves it within AGREEMENT of this range
Not set   by the legs of a round trip, see `Trip`, nor by a swap below ODD_MICRO_USD that is too
          small to move its pool, if its price is MOVE_MIN or more off the pool's last price

A pool whose balances are not known weighs nothing.  If no pool weighs anything, the pool known
longest that is not abandoned decides alone.

The result is a function of the swaps in order: it is the same after a restart or a fork.
"""

from collections.abc import Sequence
from enum import IntEnum
from math import sqrt
from typing import Final

import msgspec
from msgspec.structs import replace

from mintscope.kit.primitives import UnixS
from mintscope.kit.time import DAY_S, HOUR_S
from mintscope.market.median import SILENT, is_near, middle
from mintscope.market.sol_rate import FRACTION as SHARED_FRACTION
from mintscope.market.sol_rate import third

AGREEMENT: Final = 0.02
TIE: Final = 0.01  # part of all weight above and below half: no depth is known more exactly
AGREEMENT_OF_SAMPLES: Final = 0.05  # AGREEMENT for samples of the SOL/USD rate, which is a median
FRACTION: Final = 8  # a pool of less than one eighth of the heaviest is left out
WINDOW_S: Final = 30  # the window in which the least depth counts
YOUNG_S: Final = 5  # the age at which a pool has its whole weight if no other pool trades
OLD_S: Final = 600  # the age from which a pool has its whole weight
PROVEN_S: Final = 12 * HOUR_S  # the largest age that counts when a pool to replace is chosen
SIGNERS: Final = 3  # the number of distinct signers that gives a pool its whole weight
ENOUGH_SIGNERS: Final = ("",) * SIGNERS  # their addresses are no longer needed
LULLS_OF_SILENCE: Final = 2  # four mean pauses, if a pool trades at random
SILENCE_MIN_S: Final = 3
SILENCE_MAX_S: Final = 9  # a move to another pool is followed within ten seconds
LULLS_OF_RIVAL: Final = 3  # a pool older than these, less RIVAL_LEAD_S, can replace a silent one
RIVAL_LEAD_S: Final = 5
PAUSES_OF_DEATH: Final = 100
PAUSE_WEIGHT: Final = 4  # the newest pause has 1 / PAUSE_WEIGHT of the weight in the mean
POOLS_MAX: Final = 17  # with more or fewer, some attacks cost less: decision 114
PROVEN_MAX: Final = POOLS_MAX - 2  # pools that a new one never replaces, see `_proven`
MOVE_MIN: Final = 0.05  # a move of the price that cannot be a fee
DUST: Final = 10_000  # a swap of less than 1 / DUST of the depth cannot have moved the price
ODD_MICRO_USD: Final = 100_000  # ten cents: in smaller swaps, fees and rent distort the price
SLACK: Final = 8  # the depth that a move shows may be wrong by this factor
SIGNER_CHARS: Final = 8
SUM_MAX: Final = 10**18  # micro-USD; sums grow for years, and the log has 64 bits for each


class Trip(IntEnum):
    """The role of a swap in a round trip, which brings a transaction back to where it began.

    NONE   the swap is not part of a round trip
    LOOP   swaps of its signer led back to their first mint: the pool keeps the price of the swap
    BACK   the pool was traded in both directions in the transaction: its price has not changed
    """

    NONE = 0
    LOOP = 1
    BACK = 2


BACK: Final = int(Trip.BACK)  # an integer, because it is compared for each swap


class Offer(msgspec.Struct, frozen=True, gc=False):
    """The price of a mint in one swap, which may set the price of the mint.

    usd, sol   the price of one whole token
    volume     traded micro-USD, even of a round trip
    succeeds   the bonding curve that *pool* replaces; then no other field has a meaning.  None for
               a swap
    depth      micro-USD of the quote token in the pool after the swap; None if not shown
    is_direct  whether the price is in dollars or SOL, not in another token
    """

    pool: str
    signer: str
    usd: float
    sol: float
    volume: int
    depth: int | None
    time: UnixS
    is_direct: bool = True
    trip: int = Trip.NONE
    succeeds: str | None = None
    is_buy: bool = True


class StandingPool(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A pool of a mint as of its newest swap.

    pool                its name
    usd, sol, at        its price, and the time of its newest swap
    pause_s             the usual seconds between its swaps
    low, low_before     its lowest reserve in this and in the previous WINDOW_S, micro-USD
    stood_s             seconds from its first swap to the newest, at most PROVEN_S
    signers             the starts of its first signers' addresses; ENOUGH_SIGNERS: SIGNERS or more
    from_usd, from_sol  the price from which its next move is measured
    flow                traded micro-USD since that price
    shown               micro-USD of depth that its moves show; None before the first move
    left                the newest reserve, micro-USD; 0 if no balance showed it; None in old logs
    is_buy              whether its price is that of a purchase
    from_is_buy         whether the price from which moves are measured is that of a purchase
    lull_s              the mean of its pauses, weighted by their length, over about OLD_S: several
                        swaps in one second do not shorten it.  None in logs of older versions
    across_usd          the newest price of the other side since *from_usd*; None before the first
    from_across_usd     the other side's newest price before *from_usd*; None: none, or an old log
    """

    pool: str
    usd: float
    sol: float
    at: UnixS
    pause_s: float
    low: int
    low_before: int
    stood_s: int
    signers: tuple[str, ...]
    from_usd: float
    from_sol: float
    flow: int
    shown: int | None = None
    left: int | None = None
    is_buy: bool = True
    from_is_buy: bool = True
    lull_s: float | None = None
    across_usd: float | None = None
    from_across_usd: float | None = None

    @property
    def depth(self) -> int:
        """The pool's liquidity: its lowest reserve, but at most what its moves show; micro-USD."""
        # Each swap asks for the depth of every pool, and `min` takes twice as long.
        depth = self.low if self.low < self.low_before else self.low_before  # noqa: FURB136
        shown = self.shown
        return depth if shown is None or shown > depth else shown

    def is_silent(self, time: UnixS) -> bool:
        """Return whether the pool has not traded at *time* for longer than is usual for it."""
        silent_s = time - self.at
        if silent_s <= SILENCE_MIN_S:
            return False
        return silent_s > SILENCE_MAX_S or silent_s > LULLS_OF_SILENCE * self.usual_lull_s

    @property
    def usual_lull_s(self) -> float:
        """The mean pause in seconds, in which long pauses weigh more; an estimate in older logs."""
        return 2 * self.pause_s if self.lull_s is None else self.lull_s

    @property
    def rival_s(self) -> float:
        """The age in seconds above which another pool can replace this one if it is silent."""
        return min(SILENCE_MAX_S, LULLS_OF_RIVAL * self.usual_lull_s - RIVAL_LEAD_S)

    @property
    def dead_s(self) -> float:
        """The seconds without a swap after which the pool counts as abandoned."""
        return max(HOUR_S, min(DAY_S, PAUSES_OF_DEATH * self.pause_s))

    def ready(self, time: UnixS) -> float:
        """Return the pool's liquidity at *time* in micro-USD, or its weight if it is silent."""
        return self.if_silent(time) if self.is_silent(time) else self.depth

    def if_silent(self, time: UnixS) -> float:
        """Return the weight of the pool if it is silent: an eighth; less if it is abandoned."""
        silent_s = time - self.at  # no pool is abandoned within an hour
        part = 1.0 if silent_s <= HOUR_S else min(1.0, self.dead_s / silent_s)
        return self.depth / SILENT * part


class HourFlow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The volume of a mint in the clock hour of its newest swap, and in the hour before.

    hour                             the clock hour, in hours since 1970
    taken, rejected                  micro-USD of the swaps that set the price, and of all others
    taken_before, rejected_before    the same in the hour before
    """

    hour: int
    taken: int
    rejected: int
    taken_before: int
    rejected_before: int


NO_FLOW: Final = HourFlow(0, 0, 0, 0, 0)


class Standing(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The pools of a mint as of its newest swap.

    pool        the pool that last set the price
    usd, at     this price, and the time at which it was set
    is_direct   whether it was set in dollars or SOL, not through another token
    since       the time of the first swap, or that of the first swap of another pool after an hour
                without a price
    flow        the volume of the swaps that offered a price; NO_FLOW in logs of earlier versions
    """

    pools: tuple[StandingPool, ...]
    pool: str
    usd: float
    at: UnixS
    since: UnixS
    is_direct: bool = True
    flow: HourFlow = NO_FLOW

    @property
    def pause_s(self) -> float:
        """Usual seconds between swaps of the pool that last set the price; a day if it is gone."""
        return next((one.pause_s for one in self.pools if one.pool == self.pool), float(DAY_S))


def stand(standing: Standing | None, offer: Offer) -> tuple[Standing | None, bool]:
    """Return the pools of a mint after *offer*, the next swap, and whether it sets the price.

    If there is no pool yet, neither a round trip nor a migration adds one.
    """
    if standing is None:
        if offer.trip or offer.succeeds is not None:
            return None, False
        fresh = (_fresh(offer),)
        flow = _flowed(NO_FLOW, offer, sets=True)
        since = offer.time
        return Standing(fresh, offer.pool, offer.usd, since, since, offer.is_direct, flow), True
    if offer.succeeds is not None:
        return _succeeded(standing, offer.succeeds, offer.pool), False
    pools, place = _traded(standing.pools, offer)
    if not _sets(pools, place, offer):
        flow = _flowed(standing.flow, offer, sets=False)
        last = standing.pool, standing.usd, standing.at, standing.since, standing.is_direct
        return Standing(pools, *last, flow), False
    since = standing.since
    if offer.pool != standing.pool and offer.time - standing.at > HOUR_S:
        since = offer.time
    flow = _flowed(standing.flow, offer, sets=True)
    return Standing(pools, offer.pool, offer.usd, offer.time, since, offer.is_direct, flow), True


def _flowed(flow: HourFlow, offer: Offer, *, sets: bool) -> HourFlow:
    """Return *flow* with the volume of a swap added; *sets*: whether the swap sets the price."""
    hour = offer.time // HOUR_S
    if hour != flow.hour:
        is_next = hour == flow.hour + 1
        flow = HourFlow(hour, 0, 0, *((flow.taken, flow.rejected) if is_next else (0, 0)))
    taken = flow.taken
    rejected = flow.rejected
    if sets:
        taken = min(taken + offer.volume, SUM_MAX)
    else:
        rejected = min(rejected + offer.volume, SUM_MAX)
    return HourFlow(hour, taken, rejected, flow.taken_before, flow.rejected_before)


def _succeeded(standing: Standing, curve: str, pool: str) -> Standing:
    """Return the pools of a mint after *pool* has replaced *curve*, if the curve is among them.

    The pool takes the age and the signers of the curve.  It may begin at any price: the move to
    this price counts as if all money in the curve had been traded for it.
    """
    left = next((one for one in standing.pools if one.pool == curve), None)
    if left is None:
        return standing
    depth = max(left.low, left.low_before)
    taken = replace(left, pool=pool, flow=depth, shown=None, across_usd=None, from_across_usd=None)
    pools = tuple(taken if one is left else one for one in standing.pools if one.pool != pool)
    last = pool if standing.pool == curve else standing.pool
    return replace(standing, pools=pools, pool=last)


def _sets(pools: tuple[StandingPool, ...], place: int, offer: Offer) -> bool:
    """Return whether *offer*, a price in the pool at *place*, sets the price of the mint."""
    if offer.trip or pools[place].usd != offer.usd:  # the pool did not adopt the odd price
        return False
    if len(pools) == 1:
        return True
    counting, silent = _counting(pools, offer.time)
    if not counting[place]:
        return False
    usd = offer.usd
    for one, pool in zip(counting, pools, strict=True):
        if one and pool.usd != usd and not is_near(usd, pool.usd, AGREEMENT):
            break
    else:
        return True  # a price near all prices is near the median
    low, high = middle([pool.usd for pool in pools], counting, silent, TIE)
    return is_near(usd, high if usd > high else max(usd, low), AGREEMENT)


def is_sample(standing: Standing, offer: Offer) -> bool:
    """Return whether *offer* is near the prices of other pools, so the SOL rate may use it."""
    return is_near(offer.usd, _shared_median(standing, offer.time), AGREEMENT_OF_SAMPLES)


def _shared_median(standing: Standing, time: UnixS) -> float:
    """Return the median of pool prices by weight; of three or more pools, none has over a third."""
    pools = standing.pools
    weighing = _seen_again(*_weighed(pools, time))
    most = max(pool.depth for pool in pools)
    for at, pool in enumerate(pools):
        if pool.depth * SHARED_FRACTION < most:
            weighing[at] = 0.0
    prices = [pool.usd for pool in pools]
    if not any(weighing):
        return middle(prices, *_counting(pools, time), 0)[0]
    share = third([weight for weight in weighing if weight])
    return middle(prices, [min(weight, share or weight) for weight in weighing], (), 0)[0]


def _counting(pools: Sequence[StandingPool], time: UnixS) -> tuple[list[float], Sequence[int]]:
    """Return the weights of *pools*, 0 if they cannot set the price, and indices of silent pools.

    If no pool weighs anything, the pool known longest that is not abandoned counts alone.
    """
    weighing, silent = _heavy(*_weighed(pools, time))
    if not any(weighing):
        alive = (at for at, one in enumerate(pools) if time - one.at <= one.dead_s)
        weighing[next(alive, 0)] = 1.0  # pools are in the order in which they became known
    return weighing, silent


def _heavy(weighed: list[float], silent: Sequence[int]) -> tuple[list[float], Sequence[int]]:
    """Set weights below an eighth of the heaviest to 0; return both arguments.

    A silent pool is compared by its weight while it trades: otherwise many small pools, which
    together have as much money as a large one, would not count in a pause.
    """
    least = max(weighed) / FRACTION
    for place, weight in enumerate(weighed):
        if weight < least and (place not in silent or SILENT * weight < least):
            weighed[place] = 0.0
    return weighed, silent


def counts_at(standing: Standing | None, pool: str, time: UnixS) -> bool:
    """Return whether *pool* can set the price at *time*; each can before the first price."""
    if standing is None:
        return True
    counting = zip(standing.pools, _counting(standing.pools, time)[0], strict=True)
    return any(one.pool == pool and weight for one, weight in counting)


def weights(pools: Sequence[StandingPool], time: UnixS) -> list[float]:
    """Return the weight of each of *pools* at *time* in micro-USD; 0 if it cannot set the price.

    The weight of a silent pool is its weight against all pools that trade.
    """
    return _seen_again(*_heavy(*_weighed(pools, time)))


def _seen_again(weighed: list[float], silent: Sequence[int]) -> list[float]:
    """Multiply weights of *silent* pools by the number, up to 8, of pools with the same money."""
    if silent:
        trading = [one for place, one in enumerate(weighed) if place not in silent]
        heaviest = max(trading, default=0.0)
        seen = min(sum(trading) / heaviest, SILENT) if heaviest else 1.0
        for place in silent:
            weighed[place] *= seen
    return weighed


def _weighed(pools: Sequence[StandingPool], time: UnixS) -> tuple[list[float], Sequence[int]]:
    """Return the weight of each of *pools* in micro-USD, and the indices of the silent ones."""
    oldest_s = YOUNG_S  # or the age of the oldest trading pool
    weighed: list[float] = []
    silent = []
    for place, pool in enumerate(pools):
        if time - pool.at > SILENCE_MIN_S and pool.is_silent(time):  # this runs for every swap
            weighed.append(pool.if_silent(time))
            silent.append(place)
            continue
        weighed.append(pool.depth)
        oldest_s = max(oldest_s, pool.stood_s)
    if silent:
        for place in _awaited(pools, weighed, silent):
            silent.remove(place)
            weighed[place] = pools[place].depth
            oldest_s = max(oldest_s, pools[place].stood_s)
    oldest_s = min(oldest_s, OLD_S)
    for place, pool in enumerate(pools):
        if pool.stood_s < oldest_s:
            weighed[place] *= pool.stood_s / oldest_s
        if len(pool.signers) < SIGNERS:
            weighed[place] *= len(pool.signers) / SIGNERS
    return weighed, silent


def _awaited(
    pools: Sequence[StandingPool], weighed: Sequence[float], silent: Sequence[int]
) -> list[int]:
    """Return the indices of silent pools that keep the weight of a trading pool.

    Each pool that outweighs one is too young to replace it; with few signers, its age counts less.
    """
    trading = [
        (weighed[place], pool.stood_s * len(pool.signers) / SIGNERS)
        for place, pool in enumerate(pools)
        if place not in silent
    ]
    if all(one_s > SILENCE_MAX_S for _, one_s in trading):
        return []
    awaited = []
    for place in silent:
        kept = weighed[place]
        oldest_s = max((one_s for weight, one_s in trading if weight >= kept), default=-1.0)
        if 0 <= oldest_s <= SILENCE_MAX_S and oldest_s <= pools[place].rival_s:
            awaited.append(place)
    return awaited


def _traded(pools: tuple[StandingPool, ...], offer: Offer) -> tuple[tuple[StandingPool, ...], int]:
    """Return *pools* after the swap that made *offer*, and the index of its pool.

    If there are too many pools, a new one replaces the less deep of the two least proven ones.
    """
    if len(pools) == 1 and pools[0].pool == offer.pool:  # most mints have one pool
        return (_trade(pools[0], offer),), 0
    for place, pool in enumerate(pools):
        if pool.pool == offer.pool:
            return (*pools[:place], _trade(pool, offer), *pools[place + 1 :]), place
    if len(pools) < POOLS_MAX:
        return (*pools, _fresh(offer)), len(pools)
    # Money that is in many pools for a moment must not replace pools that decide.  The two least
    # proven ones are compared by depth alone: many old small pools must not replace a deep new one.
    proven = [_proven(pool, offer.time) for pool in pools]
    by_proof = sorted(range(len(pools)), key=proven.__getitem__, reverse=True)
    others = by_proof[PROVEN_MAX:]
    place = min(others, key=lambda at: (pools[at].ready(offer.time), -at))
    return (*pools[:place], *pools[place + 1 :], _fresh(offer)), len(pools) - 1


def _proven(pool: StandingPool, time: UnixS) -> float:
    """Return the liquidity of *pool* times its age and number of signers; less if abandoned.

    A shorter silence does not lower this value: in a pause of all honest pools, a pool that trades
    must not count more than they do, or it would replace them.
    """
    proven = float(pool.depth * pool.stood_s * len(pool.signers))
    silent_s = time - pool.at
    return proven * min(1.0, pool.dead_s / silent_s) if silent_s else proven


def _fresh(offer: Offer) -> StandingPool:
    depth = offer.depth or 0
    return StandingPool(
        pool=offer.pool,
        usd=offer.usd,
        sol=offer.sol,
        at=offer.time,
        pause_s=0.0,
        low=depth,
        low_before=depth,
        stood_s=0,
        signers=(offer.signer[:SIGNER_CHARS],),
        from_usd=offer.usd,
        from_sol=offer.sol,
        flow=0,
        left=depth,
        is_buy=offer.is_buy,
        from_is_buy=offer.is_buy,
        lull_s=0.0,
    )


def _trade(pool: StandingPool, offer: Offer) -> StandingPool:
    """Return the state of *pool* after its next swap, which makes *offer*."""
    time = offer.time
    gap_s = time - pool.at
    low, low_before = _lowest(pool, offer)
    signers = pool.signers
    if len(signers) < SIGNERS and offer.signer[:SIGNER_CHARS] not in signers:
        is_last = len(signers) == SIGNERS - 1
        signers = ENOUGH_SIGNERS if is_last else (*signers, offer.signer[:SIGNER_CHARS])
    stood_s = pool.stood_s
    lull_s = pool.usual_lull_s
    if gap_s:
        if stood_s < PROVEN_S:
            stood_s = min(PROVEN_S, stood_s + gap_s)
        of_s = min(OLD_S, stood_s)
        lull_s += (gap_s - lull_s) * (gap_s / of_s if gap_s < of_s else 1.0)
    usd = offer.usd
    sol = offer.sol
    is_buy = offer.is_buy
    from_is_buy = pool.from_is_buy
    across = pool.across_usd
    from_across = pool.from_across_usd
    is_small = offer.volume < ODD_MICRO_USD
    if offer.trip == BACK or (is_small and _is_odd(pool, offer)):
        usd = pool.usd
        sol = pool.sol
        is_buy = pool.is_buy
        from_usd = pool.from_usd
        from_sol = pool.from_sol
        shown = pool.shown
        flow = min(pool.flow + offer.volume, SUM_MAX)
    else:
        from_usd, from_sol, flow, shown = _moved(pool, offer)
        if is_buy != from_is_buy:
            across = usd
        elif not flow:  # the next move begins at this price
            from_across = from_across if across is None else across
            across = None
    return StandingPool(
        pool.pool,
        usd,
        sol,
        offer.time,
        pool.pause_s + (gap_s - pool.pause_s) / PAUSE_WEIGHT,
        low,
        low_before,
        stood_s,
        signers,
        from_usd,
        from_sol,
        flow,
        shown,
        pool.left if offer.depth is None else offer.depth,
        is_buy,
        from_is_buy,
        lull_s,
        across,
        from_across,
    )


def _is_odd(pool: StandingPool, offer: Offer) -> bool:
    """Return whether a swap is too small to have moved *pool*, but far from the pool's price."""
    return offer.volume * DUST < pool.low and _move(pool.usd, offer.usd, offer.usd) >= MOVE_MIN


def _lowest(pool: StandingPool, offer: Offer) -> tuple[int, int]:
    """Return the lowest reserves of *pool* in the time window of *offer*, and in the one before.

    A window begins with the reserve after the last swap before it, so later deposits do not count.
    """
    depth = offer.depth
    if depth is None:
        return pool.low, pool.low_before
    passed = offer.time // WINDOW_S - pool.at // WINDOW_S
    if not passed:
        return min(pool.low, depth), pool.low_before
    left = pool.left
    if left is None:  # in logs of older versions
        return depth, pool.low
    return min(left, depth), pool.low if passed == 1 else left


def _moved(pool: StandingPool, offer: Offer) -> tuple[float, float, int, int | None]:
    """Return the price (USD, SOL) from which the next move is measured, flow since then, and depth.

    One price may be odd, so a move counts once two swaps show it: the newest swap of *pool*, and
    *offer*, unless it is dust.  Both are on the side at which the move began, because purchases and
    sales differ by the fees.  Purchases that raise the price and sales that lower it count at once.
    A move in the other direction may be a falling fee: the other side must have shown it, too.
    """
    flow = min(pool.flow + offer.volume, SUM_MAX)
    is_of_one_side = offer.is_buy == pool.is_buy == pool.from_is_buy
    if not is_of_one_side or offer.volume * DUST < pool.low:
        return pool.from_usd, pool.from_sol, flow, pool.shown
    move = _move(pool.from_usd, pool.usd, offer.usd)
    if move >= MOVE_MIN:  # in one currency alone, the rate of SOL may have moved, and not the pool
        move = min(move, _move(pool.from_sol, pool.sol, offer.sol))
    if move < MOVE_MIN:
        return pool.from_usd, pool.from_sol, flow, pool.shown
    is_up = offer.usd > pool.from_usd
    if is_up != offer.is_buy:  # a falling fee moves no price of the other side
        if pool.across_usd is None or pool.from_across_usd is None:
            return offer.usd, offer.sol, 0, pool.shown
        ratio = pool.across_usd / pool.from_across_usd
        move = min(move, (ratio if is_up else 1 / ratio) - 1)
    if move < MOVE_MIN:
        return offer.usd, offer.sol, 0, pool.shown
    # Constant product: to multiply the price by m takes (sqrt(m) - 1) of the quote.
    shown = min(int(SLACK * flow / (sqrt(1 + move) - 1)), SUM_MAX)
    if pool.shown is not None:
        shown = max(shown, pool.shown // 2)  # one odd move at most halves it
    return offer.usd, offer.sol, 0, shown


def _move(origin: float, last: float, new: float) -> float:
    """Return the smaller move from *origin* to *last* or *new*, as a fraction; opposed: <= 0."""
    low, high = (last, new) if last < new else (new, last)
    return (low / origin if low > origin else origin / high) - 1
