"""Exchanges in a block are counted once each, by outcome, with their value in US dollars."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mintscope.app.stores.market import Market
from mintscope.dex.outcome import (
    Decoded,
    Moved,
    Quarantined,
    QuarantineReason,
    RecognisedBy,
    Swap,
    Unlisted,
)
from mintscope.ingest.coverage import CoverageMetrics, UnreadCounters, show_programs, slot_coverage
from mintscope.ingest.pipeline import Ingest
from mintscope.ingest.slots import Decode
from mintscope.kit.clock import ManualClock
from mintscope.kit.metrics import EXCHANGED_USD, EXCHANGES
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs, UnixS
from mintscope.market.coverage import SlotCoverage, Tally
from mintscope.market.log import SlotHeader
from mintscope.solana.blocks import USDC, USDS, WSOL, Block
from support.fakes.made_chain import MINTS, ListSource, block, decode_made, sol_sale
from support.scenes.stores import market_in

A, B, *_ = MINTS
RATED = SlotHeader(Slot(9), Slot(7), "hash", UnixS(1_700_000_000), sol_usd=200.0)
UNRATED = RATED.__class__(Slot(9), Slot(7), "hash", UnixS(1_700_000_000))


def swap(
    program: str,
    given: tuple[str, int],
    taken: tuple[str, int],
    *,
    at: tuple[int, int, int] = (0, 0, -1),
    leg: int = 0,
) -> Swap:
    (in_mint, in_amount), (out_mint, out_amount) = given, taken
    index, outer, inner = at
    return Swap(
        Signature("s"), index, outer, inner, leg, program, "pool", Mint(in_mint), in_amount, 6,
        Mint(out_mint), out_amount, 6, "signer",
    )  # fmt: skip


def counted(
    swaps: Sequence[Swap] = (),
    quarantined: Sequence[Quarantined] = (),
    unlisted: Sequence[Unlisted] = (),
    header: SlotHeader = RATED,
) -> SlotCoverage:
    return slot_coverage(header, Decoded([*swaps], [*quarantined], [*unlisted]))


def test_unread_calls_are_valued_by_the_mints_that_are_dollars_now() -> None:
    """An amount of a token that is not among the dollars has no known value."""
    moved = [Moved(USDS, 7_000_000), Moved(USDC, 5_000_000), Moved(WSOL, 10**9)]
    lost = [
        Quarantined(Signature("s"), 0, "orca", QuarantineReason.NO_MOVEMENT, moved=each)
        for each in moved
    ]

    def volume(*dollars: Mint) -> int:
        (kind,) = UnreadCounters(Decoded([], lost, []), frozenset(dollars)).counted(RATED)
        assert kind.count == 3
        return kind.volume

    assert volume(USDS, USDC) == 212_000_000
    assert volume(USDC) == 205_000_000
    assert volume() == 200_000_000


def test_a_call_with_many_legs_counts_once() -> None:
    legs = [
        swap("meteora", (A, 5), (USDC, 3_000_000), leg=0),
        swap("meteora", (USDC, 4_000_000), (B, 5), leg=1),
        swap("meteora", (A, 5), (B, 5), leg=2),
        swap("meteora", (A, 5), (USDC, 1_000_000), at=(0, 0, 4)),
        swap("orca", (A, 5), (USDC, 2_000_000), at=(0, 1, 4)),
    ]
    assert counted(legs).calls == {
        ("meteora", "read"): Tally(2, 2, 8_000_000),
        ("orca", "read"): Tally(1, 1, 2_000_000),
    }


def test_a_call_with_several_valued_legs_counts_once_among_valued_calls() -> None:
    """Calls without a value, and legs without a value, do not change the count."""
    unvalued = swap("meteora", (A, 5), (B, 5), at=(0, 0, -1))
    legs = [
        swap("meteora", (A, 5), (B, 5), at=(0, 1, -1), leg=0),
        swap("meteora", (A, 5), (USDC, 3_000_000), at=(0, 1, -1), leg=1),
        swap("meteora", (USDC, 4_000_000), (B, 5), at=(0, 1, -1), leg=2),
    ]
    key = ("meteora", "read")
    assert counted([unvalued, *legs]).calls[key] == Tally(2, 1, 7_000_000)
    assert counted([unvalued, *legs[1:]]).calls[key] == Tally(2, 1, 7_000_000)
    assert counted([*legs, unvalued]).calls[key] == Tally(2, 1, 7_000_000)


def test_a_swap_has_the_value_of_its_dollars_or_else_of_its_sol() -> None:
    both = [swap("a", (WSOL, 10**9), (USDC, 190_000_000))]
    back = [swap("a", (USDC, 190_000_000), (WSOL, 10**9))]
    sol = [swap("a", (WSOL, 10**9), (A, 1))]
    other = [swap("a", (A, 1), (B, 1))]
    key = ("a", "read")
    assert counted(both).calls[key] == counted(back).calls[key] == Tally(1, 1, 190_000_000)
    assert counted(sol).calls[key] == Tally(1, 1, 200_000_000)
    assert counted(sol, header=UNRATED).calls[key] == Tally(1, 0, 0)
    assert counted(other).calls[key] == Tally(1, 0, 0)


def test_amounts_of_usds_count_only_while_usds_is_a_dollar() -> None:
    header, swaps = RATED, [swap("a", (A, 1), (USDS, 7)), swap("a", (USDS, 5), (WSOL, 10**9))]
    key = ("a", "read")
    whole = slot_coverage(header, Decoded(swaps, [], []), frozenset({USDC, USDS}))
    assert whole.calls[key] == Tally(1, 1, 12)
    assert slot_coverage(header, Decoded(swaps, [], [])).calls[key] == Tally(1, 1, 200_000_000)


def test_a_program_without_a_name_is_counted_by_its_address() -> None:
    read = swap("address", (A, 1), (USDC, 7))._replace(recognised_by=RecognisedBy.TRANSFERS)
    named = Unlisted(Signature("s"), "address", "01", Moved(USDC, 7))
    assert counted([read], unlisted=[named]).calls == {("address", "unlisted"): Tally(1, 1, 7)}


def test_an_impossibly_large_amount_has_no_value() -> None:
    swaps = [swap("a", (A, 1), (USDC, 10**15 + 1))]
    assert counted(swaps).calls == {("a", "read"): Tally(1, 0, 0)}


def test_missed_calls_are_counted_by_reason_and_by_mint() -> None:
    lost = Quarantined(
        None, 0, "a", QuarantineReason.EVENT_DISAGREES, moved=Moved(USDC, 7), mints=(A, WSOL)
    )
    more = lost._replace(reason=QuarantineReason.OVERFLOW, moved=None, mints=(A,))
    found = counted(quarantined=[lost, lost, more])
    assert found.calls == {
        ("a", "event_disagrees"): Tally(2, 2, 14),
        ("a", "overflow"): Tally(1, 0, 0),
    }
    assert found.missed == {A: Tally(3, 2, 14), WSOL: Tally(2, 2, 14)}


def test_metrics_have_a_bounded_number_of_labels_and_show_programs_from_the_start() -> None:
    show_programs(["of the table"])
    assert value(EXCHANGES, "of the table", "missed") == 0
    metrics = CoverageMetrics()
    calls = {(f"{each:032}", "unlisted"): Tally(1, 1, 2_000_000) for each in range(150)}
    calls |= {("of the table", "no_movement"): Tally(2), ("of the table", "overflow"): Tally(3)}
    metrics.count(
        SlotCoverage(slot=Slot(1), parent_slot=Slot(0), time=UnixS(1), calls=calls, missed={})
    )
    assert value(EXCHANGES, "of the table", "missed") == 5
    assert value(EXCHANGES, "other", "unlisted") == 50
    assert value(EXCHANGED_USD, "other", "unlisted") == 100
    assert value(EXCHANGES, f"{99:032}", "unlisted") == 1


def value(metric: Any, *labels: str) -> float:
    return float(metric.labels(*labels)._value.get())  # noqa: SLF001 - it has no other reader


async def run(market: Market, blocks: Sequence[Block], decode: Decode = decode_made) -> None:
    source, clock = ListSource(blocks), ManualClock(UnixMs(0))
    await Ingest(source=source, store=market.store, decode=decode, clock=clock).run()


async def test_a_transaction_that_breaks_the_decoder_is_missed_and_the_others_are_read(
    tmp_path: Path,
) -> None:
    """A call that is quarantined in the same block stays quarantined."""
    lost = Quarantined(Signature("s"), 0, "a", QuarantineReason.NO_MOVEMENT)

    def decode(transactions: Any) -> Decoded:
        transactions = list(transactions)
        if len(transactions) > 1 or transactions[0].index == 1:
            raise RuntimeError
        return decode_made(transactions)._replace(quarantined=[lost])

    async with market_in(tmp_path) as market:
        await run(market, [block(10, None, [sol_sale(100), sol_sale(100)])], decode)
        found = await market.reader.coverage(1)
    assert found is not None
    outcomes = {(row.program, row.outcome): row.tally.calls for row in found.rows}
    assert outcomes.pop(("a", "no_movement")) == 1
    assert outcomes.pop(("unknown", "decoder_bug")) == 1
    assert [(outcome, calls) for (_, outcome), calls in outcomes.items()] == [("read", 1)]


async def test_a_block_that_is_sent_twice_is_counted_once(tmp_path: Path) -> None:
    first = block(10, None, [sol_sale(100)])
    blocks = [first, block(12, first, [sol_sale(100)])]
    async with market_in(tmp_path) as market:
        for _ in range(2):
            await run(market, [*blocks, *blocks])
        found = await market.reader.coverage(1)
    assert found is not None
    assert (found.blocks, found.skipped_slots) == (2, 1)
    assert [row.tally.calls for row in found.rows] == [2]
