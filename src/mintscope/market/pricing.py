"""The value of a swap, determined once, when its slot is appended to the log.

Quotes     wrapped SOL and dollars are known by mint, other tokens by their price: see `quotes`
SOL/USD    the price that the pools of SOL and dollars agree on in a slot and the 60 s before it,
           see `sol_rate`; in a slot without swaps in these pools, the previous rate, for 300 s.
           The price of the SOL token is this rate, unless only one pool of SOL is known
No rate    without a rate, swaps have no price and no volume, even in dollars; only migrations from
           a bonding curve to a pool are logged
Pools      a swap sets a price only if `standing` accepts it; a swap at a rejected price adds no
           volume either, because volume at a price that only one person uses costs nothing
Dust       a swap too small to set a price adds volume, at most ten cents, if its pool counts for
           the price
Trips      if one signer buys and sells a mint in one transaction, these swaps add no volume; swaps
           of a transaction that lead back to their first mint, and all its swaps of a pool that it
           trades in both directions, set no price
Exact      volumes are integers rounded down from exact rationals of the raw amounts and the rate;
           a price in the quote is the float nearest to its rational
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from enum import StrEnum
from fractions import Fraction
from itertools import groupby
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeAlias

from mintscope.dex.outcome import Oriented, QuoteKind, RecognisedBy, Swap
from mintscope.kit.primitives import MICRO_USD, Mint, UnixS
from mintscope.market.log import Evidence, PricedSwap, SlotHeader, SwapDetail, Uncounted
from mintscope.market.quotes import BASIC, Quotes, oriented
from mintscope.market.sol_rate import Sample, agreed, newest
from mintscope.market.standing import SIGNER_CHARS, Offer, Trip
from mintscope.solana.blocks import LAMPORTS_PER_SOL, WSOL

SAMPLE_LAMPORTS_MIN: Final = 50_000_000  # 0.05 SOL
POOL_CHARS: Final = 16  # number of characters of an address that identify a pool
RATE_WINDOW_S: Final = 60
RATE_AGE_MAX_S: Final = 300

SOL: Final = QuoteKind.SOL  # a constant, because it is compared for each swap
TOKEN: Final = QuoteKind.TOKEN
# A swap of fewer raw units sets no price: DUST_RAW of the base, DUST_QUOTE of the quote, by kind.
DUST_RAW: Final = 1_000
DUST_QUOTE: Final = {SOL: 100_000, QuoteKind.USD: 20_000, TOKEN: DUST_RAW}
DUST_USD: Final = 0.02  # a swap of fewer USD against another token sets no price
DUST_VOLUME: Final = 100_000  # the most micro-USD of volume of a swap too small to set a price
QUOTE_DECIMALS: Final = {QuoteKind.SOL: 9, QuoteKind.USD: 6}

# No real token is near these limits.  A value beyond them is an attack or a bug: sums of volumes
# would overflow 64 bits, and a chart would be useless forever.
PRICE_USD_MIN: Final = 1e-24
PRICE_USD_MAX: Final = 1e12
RATE_MIN: Final = 0.01
RATE_MAX: Final = 1e6
VOLUME_MAX: Final = 10**15
DEPTH_MAX: Final = 10**16
DECIMALS_MAX: Final = 30


POWERS: Final[tuple[int, ...]] = tuple(10**digits for digits in range(DECIMALS_MAX + 1))
COUNTED: Final = int(Uncounted.NOT)

# The fields from transaction_index to leg, and transaction_index alone: by index, because they are
# read for every swap.
_position: Final[Callable[[Swap], tuple[int, int, int, int]]] = itemgetter(slice(1, 5))
_transaction: Final[Callable[[Swap], int]] = itemgetter(1)
Way: TypeAlias = tuple[int | str, ...]
"""Transaction, pool or signer, and both mints as a pool received and paid them."""
Wash: TypeAlias = AbstractSet[tuple[int, Mint, str]]
"""The (transaction, mint, signer) of signers that bought and sold the mint in the transaction."""
Agrees: TypeAlias = Callable[[Offer], bool]
SetsPrice: TypeAlias = Callable[[Mint, Offer], bool]
"""Returns whether a swap sets the price of a mint; called for the swaps of a slot in order."""


class Rate(NamedTuple):
    """The dollars for one SOL, and the time of the newest swap on which this rate is based."""

    usd: float
    at: UnixS


class _ExactRate(NamedTuple):
    """The micro-USD of one lamport as the exact fraction *times* / *per*."""

    times: int
    per: int


class Unpriced(StrEnum):
    """The reason why a swap sets no price.

    Only swaps with UNKNOWN_DECIMALS, DUST or ABSURD_PRICE may add volume nevertheless.
    """

    NO_ANCHOR = "no_anchor"
    NO_RATE = "no_rate"
    ABSURD_VOLUME = "absurd_volume"
    UNKNOWN_DECIMALS = "unknown_decimals"
    DUST = "dust"
    ABSURD_PRICE = "absurd_price"
    OTHER_POOL = "other_pool"
    ROUND_TRIP = "round_trip"


class Priced(NamedTuple):
    """The swaps of one slot that must be logged, in order.

    unpriced   the number of swaps that set no price, by reason

    Swaps with neither volume nor evidence are not logged.
    """

    swaps: list[PricedSwap]
    unpriced: Counter[Unpriced]


def sol_usd_samples(
    swaps: Iterable[Swap],
    time: UnixS = UnixS(0),  # noqa: B008 - a number
    agrees: Agrees | None = None,
    quotes: Quotes = BASIC,
) -> tuple[Sample, ...]:
    """Return the prices of SOL in the swaps of a slot that may set the SOL/USD rate, in order.

    A transaction has at most one in each pool, that of its last suitable swap, and none in a pool
    in which it bought and sold SOL.  All those of a transaction have the same signer.  Of each
    pool, only those that `newest` keeps are returned.

    time     the time of the slot
    agrees   returns whether the next swap is suitable; None: every swap is
    quotes   the tokens in which prices are stated, as of before the slot
    """
    found: dict[tuple[str, int], Sample] = {}
    sides: dict[tuple[str, int], bool] = {}
    both: set[tuple[str, int]] = set()
    signers: dict[int, str] = {}
    of_usd: frozenset[str] = quotes.dollars
    for swap in swaps:
        is_sale = swap.out_mint in of_usd and swap.in_mint == WSOL
        if is_sale:
            lamports = swap.in_amount
            dollars = swap.out_amount
            left = swap.out_left
        elif swap.in_mint in of_usd and swap.out_mint == WSOL:
            lamports = swap.out_amount
            dollars = swap.in_amount
            left = swap.in_left
        else:
            continue
        if lamports < SAMPLE_LAMPORTS_MIN or dollars > VOLUME_MAX:
            continue
        transaction = swap.transaction_index
        place = swap.pool[:POOL_CHARS], transaction
        if sides.setdefault(place, is_sale) != is_sale:
            both.add(place)
        price = dollars * LAMPORTS_PER_SOL / (lamports * MICRO_USD)
        if RATE_MIN <= price <= RATE_MAX:
            depth = _shown(swap, left)
            parts = swap.pool, swap.signer, price, 1.0, dollars, depth, time
            offer = Offer(*parts, is_buy=not is_sale)
            if agrees is None or agrees(offer):
                # A transaction is one trader, whatever signers its swaps have.
                signer = signers.setdefault(transaction, swap.signer[:SIGNER_CHARS])
                found[place] = Sample(price, lamports, depth, place[0], signer)
    return newest(sample for place, sample in found.items() if place not in both)


def sol_usd(recent: Iterable[SlotHeader], samples: Sequence[Sample], time: UnixS) -> Rate | None:
    """Return the rate of SOL in a slot; None if SOL has no rate.

    Without samples, the previous rate is returned, unless it is older than RATE_AGE_MAX_S: a slot
    without trades of SOL does not change the rate.

    recent    the headers before the slot, newest first; read only as far back as needed
    samples   the prices of SOL in the slot
    time      the time of the slot
    """
    if not samples:
        return _last(next(iter(recent), None), time)
    window = [(0, samples)]
    for header in recent:
        age_s = time - header.time
        if age_s > RATE_WINDOW_S:
            break
        if header.samples:
            window.append((age_s, header.samples))
    usd = agreed(window)
    return None if usd is None else Rate(usd, time)


def _last(header: SlotHeader | None, time: UnixS) -> Rate | None:
    """Return the rate of SOL in *header*; None if it has none, or one that is too old at *time*."""
    if header is None or header.sol_usd is None or header.sol_usd_time is None:
        return None
    if time - header.sol_usd_time > RATE_AGE_MAX_S:
        return None
    return Rate(header.sol_usd, header.sol_usd_time)


def price_slot(
    swaps: Iterable[Swap],
    rate: Rate | None,
    sets_price: SetsPrice | None = None,
    quotes: Quotes = BASIC,
    time: UnixS = UnixS(0),  # noqa: B008 - a number
) -> Priced:
    """Return the swaps of a slot with their prices and volumes, as they are logged.

    swaps        in order
    rate         the rate of SOL; None: of *swaps*, only migrations are returned
    sets_price   returns whether the next swap sets the price; None: all but round trips do
    quotes       the tokens in which prices are stated, as of before the slot
    time         the time of the slot
    """
    ordered = sorted(swaps, key=_position)
    # This also reads the value of each quote token, before the swaps of the slot change any price.
    sided, unpriced = _sided(ordered, quotes)
    if rate is None:
        return _without_rate(sided, unpriced, sets_price, time)
    shared = _with_several(ordered)
    wash = _on_both_sides(one for one in sided if one[0].transaction_index in shared)
    trips = _trips(swap for swap in ordered if swap.transaction_index in shared)
    times, per = rate.usd.as_integer_ratio()
    exact = _ExactRate(times, per * LAMPORTS_PER_SOL // MICRO_USD)  # the division has no remainder
    # The USD price of every swap of the SOL token; None: the price of the swap itself.
    of_sol = None if _has_one_pool(sided, rate, quotes) else rate.usd
    priced = []
    for swap, seen in sided:
        if swap.succeeds is not None:
            priced.append(_succession(swap, seen, sets_price, time))
            continue
        flow = _volume(seen, exact, quotes)
        if flow > VOLUME_MAX:
            unpriced[Unpriced.ABSURD_VOLUME] += 1
            continue
        is_plain = not wash and seen.quote_kind is not TOKEN  # saves a call for most swaps
        uncounted = COUNTED if is_plain else _uncounted(swap, seen, quotes, wash)
        volume = 0 if uncounted else flow
        price = _price(seen, rate.usd, quotes)
        usd: float | None = None
        sol: float | None = None
        offered: tuple[float, float] | None = None
        evidence: Evidence | None = None
        if not isinstance(price, tuple):
            unpriced[price] += 1
            # If decimals are unknown, the whole *volume* counts: no trader can choose that.
            if price is not Unpriced.UNKNOWN_DECIMALS and _has_evidence(flow, uncounted):
                evidence = _evidence(swap, seen, flow, exact, quotes, uncounted)
                volume = dust_volume(evidence, counts=quotes.counts_pool(seen.base, swap.pool))
        else:
            trip = int(_trip(trips, swap)) if trips else 0
            evidence = _evidence(swap, seen, flow, exact, quotes, uncounted, trip)
            offer = offer_of(swap.pool, price, evidence, time, is_buy=seen.is_buy)
            sets = not trip if sets_price is None else sets_price(seen.base, offer)
            if sets:
                usd, sol = price
                if of_sol is not None and seen.base == WSOL:
                    usd = of_sol
            else:
                unpriced[Unpriced.ROUND_TRIP if trip else Unpriced.OTHER_POOL] += 1
                volume = 0
            offered = None if usd == price[0] else price
        # The log has every swap that changed a pool, so a restart restores the whole pool.  A
        # swap without volume is logged for lists of swaps.
        if volume or evidence is not None:
            at = (seen.base, *_position(swap), seen.is_buy)
            detail = _detail(swap, seen)
            priced.append(PricedSwap(*at, volume, usd, sol, swap.pool, offered, detail, evidence))
    return Priced(priced, unpriced)


def _without_rate(
    sided: Sequence[tuple[Swap, Oriented]],
    unpriced: Counter[Unpriced],
    sets_price: SetsPrice | None,
    time: UnixS,
) -> Priced:
    """Return the migrations in *sided*, as logged; count all other swaps as without a rate."""
    moves = [one for one in sided if one[0].succeeds is not None]
    without_rate = Counter({Unpriced.NO_RATE: len(sided) - len(moves)})
    moved = [_succession(*one, sets_price, time) for one in moves]
    return Priced(moved, unpriced + without_rate)


def _succession(
    swap: Swap, seen: Oriented, sets_price: SetsPrice | None, time: UnixS
) -> PricedSwap:
    """Return the log entry of a migration: the pool of *swap* replaces a bonding curve.

    seen         the swap, with the token as base
    sets_price   called with the migration; None: no function is called
    """
    evidence = Evidence(None, 0, "", succeeds=swap.succeeds)
    if sets_price is not None:
        sets_price(seen.base, offer_of(swap.pool, (0.0, 0.0), evidence, time))
    at = _position(swap)
    return PricedSwap(seen.base, *at, False, 0, None, None, swap.pool, evidence=evidence)  # noqa: FBT003


def _sided(
    swaps: Iterable[Swap], quotes: Quotes
) -> tuple[list[tuple[Swap, Oriented]], Counter[Unpriced]]:
    """Return *swaps* with the token that is priced and the token that prices it.

    Swaps without such tokens are left out; the second result counts them.
    """
    sided = []
    without = 0
    for swap in swaps:
        seen = oriented(swap, quotes)
        if seen is None:
            without += 1
        else:
            sided.append((swap, seen))
    return sided, +Counter({Unpriced.NO_ANCHOR: without})  # the plus sign drops a count of 0


def offer_of(
    pool: str,
    price: tuple[float, float],
    evidence: Evidence,
    time: UnixS,
    *,
    is_buy: bool = True,
) -> Offer:
    """Return the price of a mint in a swap of *pool*, together with the evidence of the swap.

    price      the price in USD and in SOL
    evidence   the facts that the swap shows about the pool
    """
    usd, sol = price
    return Offer(
        pool,
        evidence.signer,
        usd,
        sol,
        evidence.flow,
        evidence.depth,
        time,
        evidence.is_direct,
        evidence.trip,
        evidence.succeeds,
        is_buy,
    )


def _evidence(  # noqa: PLR0913, PLR0917 - one argument for each source
    swap: Swap,
    seen: Oriented,
    volume: int,
    rate: _ExactRate,
    quotes: Quotes,
    uncounted: int,
    trip: int = 0,
) -> Evidence:
    left = seen.quote_left
    depth = None if left is None else _worth(seen, left, rate, quotes)
    is_direct = seen.quote_kind is not TOKEN
    flow = volume
    if not is_direct:  # *volume* is 0 if trades against this quote do not count
        behind = quotes.behind(seen.quote)
        depth = depth if depth is None or behind is None else min(depth, behind)
        flow = min(_worth(seen, seen.quote_amount, rate, quotes), VOLUME_MAX)
    signer = swap.signer[:SIGNER_CHARS]
    shown = _shown(swap, depth)
    return Evidence(
        shown, flow, signer, is_direct, trip, None, uncounted, swap.progress, swap.fee_bps
    )


def _has_one_pool(sided: Iterable[tuple[Swap, Oriented]], rate: Rate, quotes: Quotes) -> bool:
    """Return whether at most one pool sets prices of SOL, including the pools of this slot."""
    pools = quotes.pools(WSOL)
    if len(pools) <= 1:
        pools.update(
            swap.pool
            for swap, seen in sided
            if seen.base == WSOL and isinstance(_price(seen, rate.usd, quotes), tuple)
        )
    return len(pools) <= 1


def _uncounted(swap: Swap, seen: Oriented, quotes: Quotes, wash: Wash) -> int:
    """Return the reason why *swap* adds no volume, as an `Uncounted`; COUNTED if it adds some.

    wash   the (transaction, mint, signer) of signers that bought and sold the mint at once
    """
    if (swap.transaction_index, seen.base, swap.signer) in wash:
        return int(Uncounted.ROUND_TRIP)
    if seen.quote_kind is TOKEN and not quotes.counts_volume(seen.quote):
        return int(Uncounted.QUOTE)
    return COUNTED


def _has_evidence(flow: int, uncounted: int) -> bool:
    """Return whether evidence is logged for a swap that sets no price.

    flow        its micro-USD
    uncounted   why it adds no volume, as an `Uncounted`
    """
    return flow > DUST_VOLUME or (flow > 0 and not uncounted)


def dust_volume(evidence: Evidence, *, counts: bool) -> int:
    """Return the volume of a very small swap, which sets no price, in micro-USD.

    It is 0 if the swap is larger than DUST_VOLUME or must not count as volume.

    counts   whether swaps in its pool can set the price; if not, the result is 0: the owner of a
             private pool could otherwise add volume by any number of trades of ten cents
    """
    is_volume = counts and not evidence.uncounted and evidence.flow <= DUST_VOLUME
    return evidence.flow if is_volume else 0


def _shown(swap: Swap, depth: int | None) -> int | None:
    """Return the liquidity that *swap* shows: *depth*, at most DEPTH_MAX; None if it is unknown.

    A swap by a program that is not listed shows 0, because the trader may own such a program, and
    put one vault into any number of its pools.
    """
    if swap.recognised_by is RecognisedBy.TRANSFERS:
        return 0
    return None if depth is None else min(depth, DEPTH_MAX)


def _detail(swap: Swap, seen: Oriented) -> SwapDetail:
    return SwapDetail(
        swap.signature,
        swap.program,
        seen.base_amount,
        seen.base_decimals,
        seen.quote,
        seen.quote_amount,
        _quote_decimals(seen),
    )


def _quote_decimals(seen: Oriented) -> int | None:
    """Return the decimals of the token in which *seen* is priced; None if they are unknown."""
    return seen.quote_decimals if seen.quote_kind is TOKEN else QUOTE_DECIMALS[seen.quote_kind]


def _with_several(swaps: Iterable[Swap]) -> set[int]:
    """Return the indices of the transactions that made more than one of *swaps*."""
    counts = Counter(map(_transaction, swaps))
    return {transaction for transaction, count in counts.items() if count > 1}


def _on_both_sides(sided: Iterable[tuple[Swap, Oriented]]) -> Wash:
    """Return each (transaction, mint, signer) whose signer bought and sold the mint in it."""
    sides: dict[bool, set[tuple[int, Mint, str]]] = {True: set(), False: set()}
    for swap, seen in sided:
        if swap.succeeds is None:
            sides[seen.is_buy].add((swap.transaction_index, seen.base, swap.signer))
    return sides[True] & sides[False]


def _trips(swaps: Iterable[Swap]) -> dict[Way, Trip]:
    """Return the swaps that are part of a round trip, with the role of each.

    A swap is named by its `Way`, with its pool if its role is BACK, and its signer if it is LOOP.

    swaps   in order
    """
    trips: dict[Way, Trip] = {}
    for _, group in groupby(swaps, attrgetter("transaction_index")):
        together = [swap for swap in group if swap.succeeds is None]
        if len(together) > 1:
            trips |= dict.fromkeys(_loops(together), Trip.LOOP)
            trips |= dict.fromkeys(_ways_back(together), Trip.BACK)
    return trips


def _ways_back(together: Iterable[Swap]) -> list[Way]:
    """Return (transaction, pool, in mint, out mint) of swaps in pools that are used both ways.

    If a transaction trades in a pool in both directions, all its swaps in that pool are a round
    trip, by any signer: the victim of a sandwich, and the second key of a trader, could not trade
    at another price.
    """
    ways = {(one.transaction_index, one.pool, one.in_mint, one.out_mint) for one in together}
    return [way for way in ways if (*way[:2], way[3], way[2]) in ways]


def _loops(together: Iterable[Swap]) -> Iterator[Way]:
    """Yield (transaction, signer, in mint, out mint) of swaps that are part of a loop.

    A loop is a chain of exchanges by one signer in one transaction that leads back to its first
    mint.  To find loops, exchanges are removed until each remaining one pays with a mint that
    another one bought, and buys a mint that another one pays with.
    """
    exchanges: dict[tuple[int, str], set[tuple[Mint, Mint]]] = {}
    for swap in together:
        trader = swap.transaction_index, swap.signer
        exchanges.setdefault(trader, set()).add((swap.in_mint, swap.out_mint))
    for trader, made in exchanges.items():
        left = made
        before = 0
        while len(left) > 1 and len(left) != before:
            before = len(left)
            gained = {paid for _, paid in left}
            given = {received for received, _ in left}
            left = {one for one in left if one[0] in gained and one[1] in given}
        if len(left) > 1:
            yield from ((*trader, *one) for one in left)


def _trip(trips: dict[Way, Trip], swap: Swap) -> Trip:
    """Return the role of *swap* in a round trip; NONE if it is part of none."""
    at = swap.transaction_index
    way = swap.in_mint, swap.out_mint
    back = trips.get((at, swap.pool, *way))
    return trips.get((at, swap.signer, *way), Trip.NONE) if back is None else back


def _volume(seen: Oriented, rate: _ExactRate, quotes: Quotes) -> int:
    """Return the traded micro-USD, rounded down; 0 if trades against the quote token add none."""
    if seen.quote_kind is TOKEN and not quotes.counts_volume(seen.quote):
        return 0
    return _worth(seen, seen.quote_amount, rate, quotes)


def _worth(seen: Oriented, amount: int, rate: _ExactRate, quotes: Quotes) -> int:
    """Return the micro-USD of *amount* raw units of the quote token, rounded down; 0 if unknown."""
    kind = seen.quote_kind
    if kind is SOL:
        return amount * rate.times // rate.per
    if kind is TOKEN:
        decimals = seen.quote_decimals
        if decimals is None or decimals > DECIMALS_MAX:
            return 0
        worth = Fraction(quotes.worth(seen.quote))  # exact, so the only rounding is the last one
        scale: int = worth.denominator * POWERS[decimals]
        return amount * worth.numerator * MICRO_USD // scale
    return amount


def _price(seen: Oriented, rate: float, quotes: Quotes) -> tuple[float, float] | Unpriced:
    """Return the price of one whole token in dollars and in SOL, or the reason why there is none.

    seen   the swap, with the side that is priced and the side that it is priced in
    rate   the dollars for one SOL
    """
    in_quote = _ratio(seen)
    if not isinstance(in_quote, float):
        return in_quote
    kind = seen.quote_kind
    if kind is SOL:
        price_usd = in_quote * rate
        price_sol = in_quote
    elif kind is TOKEN:
        price_usd = in_quote * quotes.worth(seen.quote)
        price_sol = price_usd / rate
    else:
        price_usd = in_quote
        price_sol = 1.0 if seen.base == WSOL else in_quote / rate
    if not PRICE_USD_MIN <= price_usd <= PRICE_USD_MAX or not isfinite(price_sol):
        return Unpriced.ABSURD_PRICE
    if kind is TOKEN and _usd_of_quote(seen, quotes) < DUST_USD:
        return Unpriced.DUST
    return price_usd, price_sol


def _ratio(seen: Oriented) -> float | Unpriced:
    """Return the price of a whole token in quote tokens, or the reason why there is none."""
    least = DUST_QUOTE[seen.quote_kind]
    if seen.base_amount < DUST_RAW or seen.quote_amount < least:
        return Unpriced.DUST
    quote_decimals = _quote_decimals(seen)
    base_decimals = seen.base_decimals
    if base_decimals is None or quote_decimals is None:
        return Unpriced.UNKNOWN_DECIMALS
    if not (0 <= base_decimals <= DECIMALS_MAX and 0 <= quote_decimals <= DECIMALS_MAX):
        return Unpriced.ABSURD_PRICE
    # One division of integers: the float nearest to the exact ratio.
    shift = quote_decimals - base_decimals
    if shift >= 0:
        return seen.quote_amount / (seen.base_amount * POWERS[shift])
    return seen.quote_amount * POWERS[-shift] / seen.base_amount


def _usd_of_quote(seen: Oriented, quotes: Quotes) -> float:
    """Return the USD of the traded amount of the quote token, whose decimals must be known."""
    scale: int = 10 ** (seen.quote_decimals or 0)
    return seen.quote_amount / scale * quotes.worth(seen.quote)
