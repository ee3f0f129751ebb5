"""The traders of a mint in each span, as the fold stores them, agree with a slow definition."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from mintscope.kit.primitives import Mint, UnixS
from mintscope.market.engine import crowd_book
from mintscope.market.engine.crowd_book import FLOW_MAX, CrowdBook, CrowdRow
from mintscope.market.log import Evidence, LogTip, PricedSwap
from mintscope.market.series.conduct import SpanCrowd, span_crowd
from mintscope.market.series.pools import KeptCrowds, LoggedSwaps

BEGIN = 1_760_000_100
DAY_S = 86_400
Timed = tuple[int, PricedSwap]


def swap(signer: str, flow: int, *, is_buy: bool, succeeds: str | None = None) -> PricedSwap:
    evidence = Evidence(None, flow, signer, succeeds=succeeds)
    return PricedSwap(
        Mint("mint"), 0, 0, -1, 0, is_buy=is_buy, volume=0, price_usd=None, price_sol=None,
        pool="pool", evidence=evidence,
    )  # fmt: skip


def market(seed: int, swaps: int, step_s: int) -> list[Timed]:
    """Return random swaps; some traders trade more than others, and many spans are empty."""
    rng = Random(seed)
    at = BEGIN
    made: list[Timed] = []
    for _ in range(swaps):
        at += rng.choice((0, 0, 1, rng.randrange(step_s)))
        who = f"trader{min(rng.randrange(90), rng.randrange(90))}"
        flow = rng.choice((0, rng.randrange(10**7), rng.randrange(10**12)))
        made.append((at, swap(who, flow, is_buy=rng.random() < 0.5)))
        if rng.random() < 0.05:
            made.append((at, swap("", 7, is_buy=True)))
            made.append((at, swap("mover", 7, is_buy=True, succeeds="curve")))
            made.append((at, PricedSwap(Mint("mint"), 0, 0, -1, 0, True, 1, 1.0, 1.0)))  # noqa: FBT003
    return made


def booked(swaps: Sequence[Timed], seed: int) -> tuple[bytes | None, list[CrowdRow]]:
    """Apply *swaps* to a `CrowdBook` in random batches; return its state and the ended spans."""
    rng = Random(seed)
    state: bytes | None = None
    stored: list[CrowdRow] = []
    left = list(swaps)
    while left:
        size = rng.randrange(1, 60)
        book = CrowdBook(state)
        for time, one in left[:size]:
            book.apply(UnixS(time), [one])
        change = book.changed()
        state = change.state
        stored += change.closed
        left = left[size:]
    return state, stored


def kept(state: bytes | None, stored: Sequence[CrowdRow], now: int) -> LoggedSwaps:
    book = CrowdBook(state)
    tip = LogTip(seq=0, slot=None, time=UnixS(now), follows_files=False)
    crowds = KeptCrowds(book.since, [*stored, *book.rows()])
    return LoggedSwaps(tip=tip, final=None, swaps=(), has_older=False, crowds=crowds)


def slow(swaps: Sequence[Timed], now: int, minutes: int) -> tuple[object, ...]:
    """Compute the crowd of the last *minutes* from *swaps* alone, without a `CrowdBook`."""
    flows: Counter[str] = Counter()
    buyers: set[str] = set()
    sellers: set[str] = set()
    count = 0
    for time, one in swaps:
        evidence = one.evidence
        if time // 300 <= now // 300 - minutes // 5 or evidence is None:
            continue
        if evidence.signer and evidence.succeeds is None:
            count += 1
            flows[evidence.signer] += evidence.flow
            (buyers if one.is_buy else sellers).add(evidence.signer)
    total = sum(flows.values())
    top = [flow for _, flow in flows.most_common(10)]
    shares = (top[0] / total, sum(top) / total) if total else (None, None)
    return len(buyers), len(sellers), len(flows), count, total, *shares


def found(logged: LoggedSwaps, span_s: int) -> SpanCrowd:
    crowd = span_crowd(logged, span_s)
    assert crowd is not None
    return crowd


@pytest.mark.parametrize("seed", range(20))
def test_crowds_agree_with_the_swaps_for_any_batches(seed: int) -> None:
    swaps = market(seed, swaps=600, step_s=(2, 40, 400, 3_000)[seed % 4])

    state, stored = booked(swaps, seed)

    assert (state, stored) == booked(swaps, seed + 1)
    first = next(time for time, one in swaps if one.evidence and one.evidence.signer)
    for now in (swaps[-1][0], swaps[-1][0] + 299, swaps[-1][0] + 3_000, swaps[-1][0] + DAY_S):
        for span_s in (3_600, DAY_S):
            one = found(kept(state, stored, now), span_s)
            assert tuple(one.crowd) == slow(swaps, now, span_s // 60)
            begin = now // 300 * 300 - span_s + 300
            assert (one.since, one.is_capped) == (max(begin, first), False)


def test_swaps_without_a_signer_make_no_crowd() -> None:
    state, stored = booked([(BEGIN, swap("", 7, is_buy=True))], 1)
    assert (state, stored) == (None, [])
    assert span_crowd(kept(state, stored, BEGIN), DAY_S) is None


def test_a_span_has_a_maximum_of_traders_and_is_marked_as_capped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Traders above the maximum count in the sums of swaps and volume, but not as traders."""
    monkeypatch.setattr(crowd_book, "TRADERS_MAX", 20)
    swaps = [(BEGIN + n // 200, swap(f"t{n % 50}", 10, is_buy=n % 50 < 25)) for n in range(400)]

    state, stored = booked(swaps, 1)

    assert (state, stored) == booked(swaps, 2)
    assert stored == []
    assert state is not None
    assert len(state) == 3 * 8 + 16 * (20 + 1)
    one = found(kept(state, stored, BEGIN), 3_600)
    assert one.is_capped
    assert tuple(one.crowd) == (20, 0, 20, 400, 4_000, 80 / 4_000, 800 / 4_000)
    later = [*swaps, (BEGIN + 3_600, swap("t1", 10, is_buy=True))]
    assert not found(kept(*booked(later, 1), BEGIN + 3_600), 3_600).is_capped


def test_the_largest_flow_of_a_day_has_no_overflow() -> None:
    swaps = [
        (BEGIN + 300 * n, swap("whale", flow, is_buy=True))
        for n in range(288)
        for flow in (FLOW_MAX, FLOW_MAX)
    ]
    one = found(kept(*booked(swaps, 1), swaps[-1][0]), DAY_S)
    assert (one.crowd.flow, one.crowd.traders, one.crowd.top_share) == (288 * FLOW_MAX, 1, 1.0)
