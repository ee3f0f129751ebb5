"""The blobs of the market, and how its rows become values."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from mintscope.base.primitives import Mint
from mintscope.core.market.basis.packed import pack, unpack
from mintscope.core.market.log import CandleRow, Evidence, PricedSwap, SlotHeader
from mintscope.core.market.sol_rate import Sample
from mintscope.core.market.standing import Standing
from mintscope.core.market.timeframe import Timeframe
from mintscope.edges.storage.database import Database, Row

# PricedSwaps without their mint, which is the row's, without detail, which is beside them, and
# without an offered price or evidence if they have none; those of before have no pool either.
EVIDENT: Final = 11  # fields of a swap with evidence
_swaps: Final = msgspec.msgpack.Decoder(list[tuple[Any, ...]])
_samples: Final = msgspec.msgpack.Decoder(tuple[Sample, ...])
_mints: Final = msgspec.msgpack.Decoder(tuple[str, ...])
_encode: Final = msgspec.msgpack.Encoder().encode

NEWEST: Final = """
SELECT * FROM (SELECT timeframe, bucket, open, high, low, close, buy_volume, sell_volume, count
                 FROM candle WHERE mint = :mint AND timeframe = '{timeframe}' AND count > 0
                ORDER BY bucket DESC LIMIT :limit) AS {timeframe}
"""
NEWEST_CANDLES: Final = "UNION ALL".join(
    NEWEST.format(timeframe=timeframe.value) for timeframe in Timeframe
)


def swaps_blob(swaps: Iterable[PricedSwap]) -> bytes:
    """Return the swaps of one mint and slot as a blob."""
    return _encode([_swap_row(swap) for swap in swaps])


def swaps_of(mint: Mint, blob: bytes) -> list[PricedSwap]:
    """Return the swaps of *mint* that *blob* holds, in order."""
    return [_swap_of(mint, fields) for fields in _swaps.decode(blob)]


def _swap_row(swap: PricedSwap) -> tuple[Any, ...]:
    *fields, offered, _, evidence = astuple(swap)
    if evidence is not None:
        return (*fields[1:], offered, astuple(evidence))
    return (*fields[1:], offered) if offered else tuple(fields[1:])


def _swap_of(mint: Mint, fields: Sequence[Any]) -> PricedSwap:
    if len(fields) < EVIDENT:
        return PricedSwap(mint, *fields)
    *known, evidence = fields
    whole: tuple[Any, ...] = (mint, *known, None, Evidence(*evidence))
    return PricedSwap(*whole)


def volumes_of(swaps: Iterable[PricedSwap]) -> tuple[int, int]:
    """Return the volume bought and the volume sold in *swaps*."""
    volumes = [0, 0]
    for swap in swaps:
        volumes[not swap.is_buy] += swap.volume
    return volumes[0], volumes[1]


def deciding_blob(standing: Standing | None) -> bytes | None:
    """Return what decides as a blob."""
    return None if standing is None else pack(standing)


def deciding_of(blob: bytes) -> Standing:
    """Return what *blob* says decides; of before decision 60, the one pool that did."""
    return unpack(blob)


def mints_blob(mints: Iterable[Mint]) -> bytes:
    """Return addresses as a blob."""
    return _encode(list(mints))


def mints_of(blob: bytes) -> tuple[Mint, ...]:
    """Return the addresses *blob* holds."""
    return tuple(Mint(address) for address in _mints.decode(blob))


def header_row(header: SlotHeader) -> tuple[Any, ...]:
    """Return *header* as a row of the table `header`, without seq."""
    *columns, samples = astuple(header)
    return (*columns, _encode(samples))


def header_of(row: Row) -> SlotHeader:
    """Return the header that such a row holds."""
    slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, blob = row
    samples = _samples.decode(blob)
    return SlotHeader(slot, parent_slot, blockhash, time, sol_usd, sol_usd_time, samples)


def last_seq(db: Database) -> int:
    """Return the seq of the newest event, 0 for an empty log."""
    return int(db.execute("SELECT coalesce(max(seq), 0) FROM event").get)


def newest_candles(db: Database, mint_id: int, limit: int) -> dict[Timeframe, Sequence[CandleRow]]:
    """Return up to *limit* of a mint's newest candles with a price, oldest first."""
    found: dict[Timeframe, list[CandleRow]] = {timeframe: [] for timeframe in Timeframe}
    for timeframe, *row in db.execute(NEWEST_CANDLES, {"mint": mint_id, "limit": limit}):
        found[Timeframe(timeframe)].append(CandleRow(*row))
    return {timeframe: rows[::-1] for timeframe, rows in found.items()}
