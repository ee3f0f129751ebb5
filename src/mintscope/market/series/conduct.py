"""Facts about the trading of a mint, from its stored swaps; no fact is a score.

Round trip   a swap whose signer bought and sold the token in one transaction
Sandwich     two swaps of one signer in a slot and pool, a purchase and a sale, with a swap of
             another signer between them on the side of the first
Each slot    a trader in at least half of the slots in which the token was traded, if there are at
             least 20 such slots
Launch       the first three slots with a swap, if all swaps since tracking began are stored

The crowd of an hour or of a day consists of the traders in the newest 12 or 288 spans of five
minutes, including the open span and swaps that are not folded yet.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from mintscope.kit.primitives import UnixS
from mintscope.market.engine.crowd_book import SPAN_S, union_of
from mintscope.market.log import Uncounted
from mintscope.market.series.pools import TOP, Crowd, LoggedSwap, LoggedSwaps, signed
from mintscope.market.timeframe import Timeframe, bucket

SLOTS_MIN: Final = 20
LAUNCH_SLOTS: Final = 3
FIRST_BUYERS_MAX: Final = 20


class Shares(NamedTuple):
    """The shares, from 0 to 1, of a token's traded USD that three kinds of trades make up.

    round_trips   bought and sold by one signer in one transaction
    sandwiches    by a signer who traded just before and after another one
    each_slot     by traders who trade in at least half of the slots; None: too few slots

    All are None if there are no trades.
    """

    round_trips: float | None
    sandwiches: float | None
    each_slot: float | None


class FirstBuyer(NamedTuple):
    """The first purchase of a token by a trader.

    trader   the start of the trader's address
    at       the time of the purchase
    flow     micro-USD
    amount   the raw amount of the token
    """

    trader: str
    at: UnixS
    flow: int
    amount: int


class Launch(NamedTuple):
    """The purchases of a token in the first slots in which it was traded.

    buyers   the number of buyers
    bought   the raw amount of the token bought in these slots
    held     the sum of the raw amounts that these buyers still have: for each, the amount bought
             minus the amount sold in all stored swaps, at least 0
    """

    buyers: int
    bought: int
    held: int


def shares_of(swaps: Sequence[LoggedSwap]) -> Shares:
    """Return the shares of the USD of *swaps* in round trips and sandwiches; see `Shares`.

    Swaps without a logged signer are left out.

    swaps   newest first
    """
    known = signed(swaps)
    total = sum(one.flow for one in known)
    if not total:
        return Shares(None, None, None)
    return Shares(
        sum(one.flow for one in known if _is_trip(one)) / total,
        sum(one.flow for one in _sandwiches(known)) / total,
        _each_slot(known, total),
    )


def first_buyers(swaps: Sequence[LoggedSwap]) -> list[FirstBuyer]:
    """Return the first purchases of the first traders who bought, at most FIRST_BUYERS_MAX of them.

    The oldest is first.

    swaps   newest first
    """
    found: dict[str, FirstBuyer] = {}
    for one in reversed(signed(swaps)):
        who = one.signer
        if one.swap.is_buy and who not in found:
            found[who] = FirstBuyer(who, one.time, one.flow, one.amount)
            if len(found) == FIRST_BUYERS_MAX:
                break
    return list(found.values())


def launch_of(swaps: Sequence[LoggedSwap]) -> Launch:
    """Return the purchases in the first slots with a swap, and the amount the buyers still have.

    swaps   all swaps of the mint, newest first
    """
    known = signed(swaps)
    slots = sorted({one.place.slot for one in known})[:LAUNCH_SLOTS]
    early = [one for one in known if one.place.slot in slots and one.swap.is_buy]
    buyers = {one.signer for one in early}
    held: dict[str, int] = defaultdict(int)
    for one in known:
        if one.signer in buyers:
            held[one.signer] += one.amount if one.swap.is_buy else -one.amount
    return Launch(
        len(buyers), sum(one.amount for one in early), sum(max(0, each) for each in held.values())
    )


class SpanCrowd(NamedTuple):
    """The traders of a token in an hour or a day.

    since       the time from which traders are counted: the start of the hour or day, or later if
                traders are stored only since then
    is_capped   whether five minutes had more traders than are stored; the others count only in the
                number of swaps and in the flow
    """

    crowd: Crowd
    since: UnixS
    is_capped: bool


def span_crowd(logged: LoggedSwaps, span_s: int) -> SpanCrowd | None:
    """Return the traders of the newest *span_s* seconds; None if there is no swap.

    None also if *logged* was read without crowds.

    span_s   a multiple of five minutes, at most a day; the open five minutes are included
    """
    kept = logged.crowds
    if kept is None or kept.since is None:
        return None
    # The span that is still open counts as one of the spans.
    begin = bucket(Timeframe.M5, logged.tip.time or kept.since) - span_s + SPAN_S
    rows = [row for row in kept.rows if row.bucket >= begin]
    found = union_of(rows, TOP)
    swaps = sum(row.swaps for row in rows)
    counts = found.buyers, found.sellers, found.traders, swaps
    crowd = Crowd.of(counts, found.flow, found.largest)
    now = logged.tip.time or kept.since
    return SpanCrowd(crowd, UnixS(min(max(begin, kept.since), now)), found.is_capped)


def _is_trip(one: LoggedSwap) -> bool:
    evidence = one.swap.evidence
    if evidence is None:
        return False
    return evidence.uncounted == Uncounted.ROUND_TRIP or bool(evidence.trip)


def _sandwiches(known: Sequence[LoggedSwap]) -> list[LoggedSwap]:
    """Return the first and the last swap of each sandwich, each swap once.

    Swaps of unknown pools are left out.
    """
    places: dict[tuple[int, str], list[LoggedSwap]] = defaultdict(list)
    for one in reversed(known):
        if one.swap.pool is not None:
            places[one.place.slot, one.swap.pool].append(one)
    found = []
    for inside in places.values():
        outer = {n for pair in _pairs(inside) for n in pair}
        found += [inside[n] for n in sorted(outer)]
    return found


def _pairs(inside: Sequence[LoggedSwap]) -> Iterable[tuple[int, int]]:
    """Yield the indices of the first and the last swap of each sandwich in *inside*, in order.

    inside   the swaps of one slot and pool, in order
    """
    for first, begun in enumerate(inside):
        between = False
        for last in range(first + 1, len(inside)):
            one = inside[last]
            is_own = one.signer == begun.signer
            is_same_side = one.swap.is_buy == begun.swap.is_buy
            if is_own and not is_same_side and between:
                yield first, last
            between |= not is_own and is_same_side


def _each_slot(known: Sequence[LoggedSwap], total: int) -> float | None:
    slots: dict[str, set[int]] = defaultdict(set)
    flows: dict[str, int] = defaultdict(int)
    for one in known:
        slots[one.signer].add(one.place.slot)
        flows[one.signer] += one.flow
    count = len({one.place.slot for one in known})
    if count < SLOTS_MIN:
        return None
    return sum(flows[who] for who, of in slots.items() if 2 * len(of) >= count) / total
