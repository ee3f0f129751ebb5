"""Reads candles, swaps and pools of mints over time from SQL, and packs the details of swaps."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from solders.signature import Signature as SignatureBytes

from mintscope.kit.errors import parsed_by_others
from mintscope.kit.primitives import Mint, Signature, Slot, UnixS
from mintscope.kit.sql.database import AccessInThreads, Database
from mintscope.market.engine import pool_book
from mintscope.market.engine.crowd_book import CROWDS_S, CrowdBook, CrowdRow
from mintscope.market.engine.frames import SHORT_S
from mintscope.market.log import LogTip, PricedSwap, SwapDetail, Waypoint
from mintscope.market.mint_facts import MintFacts
from mintscope.market.series.past import Moment, OutOfReach, PastMint
from mintscope.market.series.past_store import NEWER, WAYPOINTS, has_all_swaps, read_past
from mintscope.market.series.pools import (
    AskedCandles,
    KeptCandles,
    KeptCrowds,
    KeptPools,
    KeptSwaps,
    LoggedSwap,
    LoggedSwaps,
    SeriesCandle,
    SwapPlace,
    UnpricedVolume,
)
from mintscope.market.store import log_reader
from mintscope.market.timeframe import WIDTH_S, Timeframe, bucket
from mintscope.solana.blocks import USDC, USDT, WSOL

QUOTES: Final = (WSOL, USDC, USDT)  # their indices are stored in blobs: only append
TEXTS_MAX: Final = 16_384  # cached signatures, 350 bytes each
DECIMALS: Final = {WSOL: 9, USDC: 6, USDT: 6}
NUMBERS: Final = {mint: number for number, mint in enumerate(QUOTES)}
_encode: Final = msgspec.msgpack.Encoder().encode
_details: Final = msgspec.msgpack.Decoder(list[tuple[Any, ...]])


def details_blob(swaps: Sequence[PricedSwap]) -> bytes | None:
    """Return the details of *swaps*, such as their signatures, as bytes for one column.

    Migrations have no details.  Returns None if a swap lacks them.
    """
    exchanged = _exchanged(swaps)
    rows = [
        (
            _packed(one.signature),
            one.program,
            one.amount,
            one.decimals,
            NUMBERS.get(one.quote, one.quote),
            one.quote_amount,
            *(() if one.quote in NUMBERS else (one.quote_decimals,)),
        )
        for swap in exchanged
        if (one := swap.detail) is not None
    ]
    return _encode(rows) if len(rows) == len(exchanged) else None


def with_details(swaps: Sequence[PricedSwap], blob: bytes | None) -> list[PricedSwap]:
    """Return *swaps* without migrations, each with its details from *blob*, such as its signature.

    The list is empty if *blob* does not have one entry for each of these swaps.
    """
    details = [] if blob is None else _details.decode(blob)
    exchanged = _exchanged(swaps)
    if len(details) != len(exchanged):
        return []
    return [
        replace(swap, detail=_detail(row)) for swap, row in zip(exchanged, details, strict=True)
    ]


def _exchanged(swaps: Sequence[PricedSwap]) -> list[PricedSwap]:
    """Return *swaps* without migrations, which only name the pool that replaces a bonding curve."""
    return [one for one in swaps if one.evidence is None or one.evidence.succeeds is None]


def _detail(row: Sequence[Any]) -> SwapDetail:
    signature, program, amount, decimals, quote, quote_amount, *reported = row
    text = signature if isinstance(signature, str) else _text(signature)
    mint = Mint(quote) if isinstance(quote, str) else QUOTES[quote]
    quote_decimals = reported[0] if reported else DECIMALS[mint]
    return SwapDetail(
        Signature(text), program, amount, decimals, mint, quote_amount, quote_decimals
    )


@lru_cache(maxsize=TEXTS_MAX)
def _text(signature: bytes) -> str:
    """Return *signature* in base58."""
    return str(SignatureBytes.from_bytes(signature))


def _packed(signature: Signature) -> bytes | str:
    """Return the bytes of *signature*, or *signature* itself if it is not base58 of 64 bytes."""
    try:
        with parsed_by_others():
            return bytes(SignatureBytes.from_string(signature))
    except ValueError:
        return signature


OF_MINT: Final = """
SELECT {columns}
  FROM mint CROSS JOIN progress LEFT JOIN state ON state.mint = mint.id
 WHERE address = ? AND since_slot IS NOT NULL
"""
STANDS: Final = OF_MINT.format(
    columns="mint.id, since_slot, since_time, state.state, in_sol, folded_seq, traders"
)
POOLS: Final = OF_MINT.format(
    columns="mint.id, pools, folded_seq, (SELECT time FROM header WHERE seq = folded_seq), traders"
)
TRADERS: Final = OF_MINT.format(columns="mint.id, since_slot, folded_seq, traders")
ROWS: Final = """
SELECT bucket, open, high, low, close, buy_volume, sell_volume, count,
       open_sol, high_sol, low_sol, close_sol,
       CASE WHEN provider IS NOT NULL THEN coalesce(provider_volume, 0) END
  FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket <= :until AND count > 0
 ORDER BY bucket DESC LIMIT :limit
"""
# The oldest candle, if all begin later than requested: the spans before it get its price.
FIRST: Final = ROWS.replace("bucket <= :until", "bucket > :until").replace(" DESC", "")
UNPRICED: Final = """
SELECT bucket, buy_volume, sell_volume FROM candle
 WHERE mint = :mint AND timeframe = :timeframe AND bucket >= :oldest AND bucket <= :until
   AND count = 0
 ORDER BY bucket
"""
# Whether the mint may have been untracked or tracked since an event.
TRACKED_AGAIN: Final = """
SELECT trimmed_seq > :seq
       OR EXISTS (SELECT 1 FROM event
                   WHERE seq > :seq AND kind IN ('track', 'untrack') AND mints = :mints)
  FROM progress
"""
# The newest final slot, and the seq of the newest slot up to a place.  This seq is the greatest of
# these slots, too, but max(seq) would read the whole log.
FROM: Final = """
SELECT finalized_slot,
       (SELECT seq FROM header WHERE is_dead = 0 AND slot <= :slot ORDER BY slot DESC LIMIT 1)
  FROM progress
"""
# The unary plus signs keep SQLite from reading the table `header` first.
SWAPS: Final = """
SELECT seq, slot, time, swaps, details
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint AND seq <= :seq
   AND +is_dead = 0
   AND +slot > :since
 ORDER BY seq DESC
 LIMIT :limit
"""
KEPT_SWAPS: Final = """
SELECT time, swaps
  FROM swap JOIN header USING (seq)
 WHERE swap.mint = :mint
   AND +is_dead = 0
   AND +slot > :since
   AND +time <= :until
 ORDER BY seq DESC
 LIMIT :limit
"""
POOL_ROWS: Final = """
SELECT bucket, pool, open, high, low, close, buy_volume, sell_volume, swaps
  FROM pool_candle WHERE mint = ? AND bucket > ? ORDER BY bucket, pool
"""
CROWDS: Final = """
SELECT bucket, swaps, traders FROM crowd WHERE mint = ? AND bucket > ? ORDER BY bucket
"""
CROWD_SWAPS: Final = "SELECT bucket, swaps FROM crowd WHERE mint = ? AND bucket > ?"
# A candle that was not imported has swaps with a price, or at least one swap with only volume.
SWAPS_OF_CANDLES: Final = """
SELECT bucket, CASE WHEN count = 0 AND buy_volume + sell_volume > 0 THEN 1 ELSE count END
  FROM candle
 WHERE mint = ? AND timeframe = 'm5' AND bucket > ? AND provider IS NULL
"""
KEPT_SLOTS_MAX: Final = 20_000
KEPT_SWAPS_MAX: Final = 100_000  # after this number of swaps, a page of s15 ends, even if not full
FACTS: Final = "SELECT facts FROM mint_fact JOIN mint ON mint_fact.mint = id WHERE address = ?"
SLOTS_AT_ONCE: Final = 32
NEWEST: Final = SwapPlace(Slot(1 << 62), 0, 0, 0, 0)


class SqlSeries:
    """Reads candles, swaps and pools of mints from SQL; call `close` when done."""

    def __init__(self, access: AccessInThreads[Database]) -> None:
        self._reading = log_reader.MarketReading(access)

    async def tip(self) -> LogTip:
        """Return the newest position of the log."""
        return await self._reading.in_snapshot(log_reader.tip_of)

    async def candles(
        self, mint: Mint, asked: AskedCandles, known: KeptCandles | None = None
    ) -> KeptCandles | None:
        """Return the candles of *mint* for the range in *asked*; None if it is not tracked.

        known   an earlier answer to the same request, whose unchanged parts need not be read again
        """
        return await self._reading.in_snapshot(lambda db: _candles(db, mint, asked, known))

    async def swaps(
        self, mint: Mint, before: SwapPlace | None, limit: int, *, with_crowds: bool = False
    ) -> LoggedSwaps | None:
        """Return up to *limit* logged swaps of *mint*, newest first; None if *mint* is not tracked.

        before        return only swaps before this one; None: begin with the newest
        with_crowds   whether the crowds of the mint are read, too
        """
        return await self._reading.in_snapshot(
            lambda db: _swaps(db, mint, before or NEWEST, limit, with_crowds=with_crowds)
        )

    async def kept_swaps(self, mint: Mint, until: UnixS, spans: int) -> KeptSwaps | None:
        """Return the newest swaps of *mint* up to the time *until*; None if it is not tracked.

        spans   the most spans of 15 seconds with a swap for which to return the swaps
        """
        return await self._reading.in_snapshot(lambda db: _kept_swaps(db, mint, until, spans))

    async def pools(self, mint: Mint, since_s: int = pool_book.POOL_CANDLES_S) -> KeptPools | None:
        """Return the pools of *mint* and their candles; None if the mint is not tracked.

        since_s   how many seconds of candles to return, up to the newest folded slot
        """
        return await self._reading.in_snapshot(lambda db: _pools(db, mint, since_s))

    async def facts(self, mint: Mint) -> MintFacts | None:
        """Return the newest facts of *mint*, such as its name; None if none were read yet."""
        found = await self._reading.run(lambda db: db.execute(FACTS, (mint,)).fetchone())
        return None if found is None else msgspec.json.decode(found[0], type=MintFacts)

    async def past(
        self, mint: Mint, moment: Moment, timeframes: Collection[str] = ()
    ) -> PastMint | OutOfReach | None:
        """Return *mint* as it was at *moment*; None if it is not tracked.

        Returns OutOfReach if the stored data do not suffice for an exact report of *moment*.

        timeframes   further timeframes to load, such as m30; each is an `AskedFrame`
        """
        return await self._reading.in_snapshot(lambda db: read_past(db, mint, moment, timeframes))

    async def close(self) -> None:
        """Close the database and stop the threads."""
        self._reading.close()


def _candles(
    db: Database, mint: Mint, asked: AskedCandles, known: KeptCandles | None
) -> KeptCandles | None:
    found = db.execute(STANDS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, since_slot, _, state, in_sol, folded_seq, _ = found
    tip = log_reader.tip_of(db)
    if known is not None and not _stands(db, mint, known, (state, in_sol)):
        known = None
    if known is not None and known.tip == tip:
        return known
    ahead = {"mint": mint_id, "since": since_slot, "folded": folded_seq}
    tail = [
        (UnixS(time), swap)
        for _, time, blob in db.execute(log_reader.NOT_FOLDED, ahead)
        for swap in log_reader.swaps_of(mint, blob)
    ]
    if known is not None:
        return replace(known, tip=tip, tail=tail)
    bounds = {"mint": mint_id, "timeframe": asked.timeframe, "until": asked.until}
    # One row more than requested shows whether older ones are stored.
    read = list(db.execute(ROWS, bounds | {"limit": asked.rows_max + 1}))
    rows = [SeriesCandle(*row) for row in reversed(read[: asked.rows_max])]
    newer = db.execute(NEWER, bounds).get
    since = bounds | {"oldest": rows[0].bucket if rows else asked.until + 1}
    if not rows and newer:
        rows = [SeriesCandle(*row) for row in db.execute(FIRST, bounds | {"limit": 1})]
        # This row is among *rows* now.
        newer -= 1
    has_older = len(read) > asked.rows_max
    spans = since if has_older else bounds | {"oldest": 0}
    return KeptCandles(
        tip=tip,
        state=state,
        in_sol=in_sol,
        rows=rows,
        has_older=has_older,
        newer=newer,
        unpriced=[UnpricedVolume(*row) for row in db.execute(UNPRICED, spans)],
        waypoints=[Waypoint(*row) for row in db.execute(WAYPOINTS, since)],
        tail=tail,
    )


def _stands(
    db: Database, mint: Mint, known: KeptCandles, folded: tuple[bytes | None, bytes | None]
) -> bool:
    """Return whether the candles of *known* are still those that are stored.

    Every fold of the mint changes its state.  Other changes of candles come with an event `untrack`
    or `track`: imports and backfills write these events, too.

    folded   the current (state, in_sol) of the mint
    """
    if folded != (known.state, known.in_sol):
        return False
    since = {"seq": known.tip.seq, "mints": log_reader.mints_blob([mint])}
    return not db.execute(TRACKED_AGAIN, since).get


def _swaps(
    db: Database, mint: Mint, before: SwapPlace, limit: int, *, with_crowds: bool
) -> LoggedSwaps | None:
    found = db.execute(STANDS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, since_slot, since_time, state, _, _, traders = found
    final, seq = db.execute(FROM, {"slot": before.slot}).get
    bounds = {"mint": mint_id, "since": since_slot, "seq": -1 if seq is None else seq}
    behind = (one for one in _newest_first(db, mint, bounds) if one.place < before)
    swaps = list(islice(behind, limit + 1))
    has_older = len(swaps) > limit
    tip = log_reader.tip_of(db)
    return LoggedSwaps(
        tip=tip,
        final=final,
        swaps=swaps[:limit],
        has_older=has_older,
        is_whole=not has_older and has_all_swaps(db, since_slot, since_time, state, traders),
        crowds=_crowds(db, mint, tip) if with_crowds else None,
    )


def _pools(db: Database, mint: Mint, since_s: int) -> KeptPools | None:
    found = db.execute(POOLS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, booked_state, folded_seq, time, traders = found
    standing = log_reader.folded_standing(db, mint_id, folded_seq)
    since = bucket(Timeframe.M5, UnixS(time or 0)) - since_s
    swaps = {row[0]: row[1] for row in db.execute(CROWD_SWAPS, (mint_id, since))}
    book = CrowdBook(traders)
    swaps |= {row.bucket: row.swaps for row in book.rows()}
    tip = log_reader.tip_of(db)
    first = None if book.since is None else _first_crowd(book.since, tip)
    pools = pool_book.booked(booked_state)
    stored = [pool_book.PoolRow(*row) for row in db.execute(POOL_ROWS, (mint_id, since))]
    return KeptPools(
        tip=tip,
        time=time,
        standing=bytes(standing[0][1]) if standing else None,
        booked=pools,
        rows=pool_book.with_open(
            stored, [row for row in pool_book.candles_of(pools) if row.bucket > since]
        ),
        missed_until=_missed_until(db, mint_id, since, swaps),
        has_crowd=first is not None and any(row.bucket > first for row in book.rows()),
    )


def _crowds(db: Database, mint: Mint, tip: LogTip) -> KeptCrowds:
    mint_id, since_slot, folded_seq, state = db.execute(TRADERS, (mint,)).get
    book = CrowdBook(state)
    ahead = {"mint": mint_id, "since": since_slot, "folded": folded_seq}
    for _, time, blob in db.execute(log_reader.NOT_FOLDED, ahead):
        book.apply(UnixS(time), log_reader.swaps_of(mint, blob))
    if book.since is None:
        return KeptCrowds(None, [])
    since = _first_crowd(book.since, tip)
    stored = [CrowdRow(*row) for row in db.execute(CROWDS, (mint_id, since))]
    rows = [row for row in (*stored, *book.rows()) if row.bucket > since]
    missed = _missed_until(db, mint_id, since, {row.bucket: row.swaps for row in rows})
    if missed is None:
        return KeptCrowds(book.since, rows)
    return KeptCrowds(max(missed, book.since), [row for row in rows if row.bucket >= missed])


def _missed_until(db: Database, mint_id: int, since: int, swaps: Mapping[int, int]) -> UnixS | None:
    """Return the end of the newest span after *since* with swaps that the pool book lacks.

    None if there is no such span.  Older versions of ingest, and backfills that fill a gap, write
    candles, but not the pool book.

    swaps   the number of swaps in the pool book, by start of the span
    """
    counts = db.execute(SWAPS_OF_CANDLES, (mint_id, since))
    missed = [at for at, count in counts if count > swaps.get(at, 0)]
    return UnixS(max(missed) + WIDTH_S[Timeframe.M5]) if missed else None


def _first_crowd(since: UnixS, tip: LogTip) -> int:
    """Return the time after which the spans of a day begin for which the traders are stored.

    There may be older rows, from an earlier time in which an older version tracked the mint.

    since   the time of the first swap in the crowd book of the mint
    """
    first = bucket(Timeframe.M5, since) - 1
    return max(first, bucket(Timeframe.M5, tip.time or UnixS(0)) - CROWDS_S)


def _kept_swaps(db: Database, mint: Mint, until: UnixS, spans: int) -> KeptSwaps | None:
    found = db.execute(STANDS, (mint,)).fetchone()
    if found is None:
        return None
    mint_id, since_slot, since_time, state, _, _, traders = found
    bounds = {"mint": mint_id, "since": since_slot, "until": until, "limit": KEPT_SLOTS_MAX + 1}
    swaps: list[tuple[UnixS, PricedSwap]] = []  # newest first
    seen: set[int] = set()
    has_older = False
    for number, (time, blob) in enumerate(db.execute(KEPT_SWAPS, bounds)):
        seen.add(time // SHORT_S)
        is_full = len(swaps) >= KEPT_SWAPS_MAX or number == KEPT_SLOTS_MAX
        has_older = len(seen) > spans or is_full
        if has_older:
            break
        swaps += [(UnixS(time), swap) for swap in reversed(log_reader.swaps_of(mint, blob))]
    is_whole = not has_older and has_all_swaps(db, since_slot, since_time, state, traders)
    return KeptSwaps(
        tip=log_reader.tip_of(db), swaps=swaps[::-1], has_older=has_older, is_whole=is_whole
    )


def _newest_first(db: Database, mint: Mint, bounds: dict[str, int]) -> Iterator[LoggedSwap]:
    """Yield the swaps of *mint* within *bounds*, newest first.

    Each SQL statement reads twice as many slots as the statement before it.
    """
    slots = SLOTS_AT_ONCE
    while True:
        rows = list(db.execute(SWAPS, bounds | {"limit": slots}))
        for seq, slot, time, blob, details in rows:
            for swap in reversed(with_details(log_reader.swaps_of(mint, blob), details)):
                at = SwapPlace(slot, swap.transaction_index, swap.outer, swap.inner, swap.leg)
                yield LoggedSwap(at, time, swap)
            # The next statement reads only older slots than this one.
            bounds = bounds | {"seq": seq - 1}
        if len(rows) < slots:
            return
        slots *= 2
