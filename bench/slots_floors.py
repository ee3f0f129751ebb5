"""Measures the least time of each stage of a slot: only the reads and writes of rows.

Every program that stores the same rows must write each of them once, and every program that follows
them must read the rows of a slot.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from mintscope.kit.sql.sqlite import open_store, transaction
from mintscope.market.log import PricedSwap

FOLDED: Final = ("candle", "state", "activity")
SWAPS: Final = "SELECT mint, swaps FROM swap WHERE seq = ? ORDER BY mint"
DECODED: Final = msgspec.msgpack.Decoder(list[tuple[Any, ...]])

Row = tuple[Any, ...]


def floors(file: Path, priced: Sequence[PricedSwap], *, slots: int) -> Mapping[str, float]:
    """Return, by stage, the processor ms per slot that any program with the same writes needs.

    file     a market file of *slots* slots, whose rows are copied to a new file
    priced   the swaps of one slot
    """
    source = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    target = open_store(file.with_name("floor.sqlite"), "market")
    _copy(target, {"mint": _all(source, "mint")})
    seqs = [seq for (seq,) in source.execute("SELECT DISTINCT seq FROM swap ORDER BY seq")]
    logged = [
        {table: _all(source, table, seq=seq) for table in ("event", "header", "swap")}
        for seq in seqs
    ]
    folded = {table: _all(source, table) for table in FOLDED}
    try:
        return {
            "price": _cpu_ms(lambda: [PricedSwap(*msgspec.structs.astuple(one)) for one in priced]),
            "append": _cpu_ms(lambda: _copy(target, *logged)) / len(logged),
            "fold": _cpu_ms(lambda: _copy(target, folded)) / slots,
            "follow": _cpu_ms(lambda: _read(source, seqs)) / len(seqs),
        }
    finally:
        target.close()
        source.close()


def _all(db: apsw.Connection, table: str, *, seq: int | None = None) -> list[Row]:
    condition = "" if seq is None else f" WHERE seq = {seq}"
    return list(db.execute(f"SELECT * FROM {table}{condition}"))


def _copy(db: apsw.Connection, *transactions: Mapping[str, Sequence[Row]]) -> None:
    for tables in transactions:
        with transaction(db):
            for table, rows in tables.items():
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    db.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _read(db: apsw.Connection, seqs: Iterable[int]) -> None:
    for seq in seqs:
        for _, swaps in db.execute(SWAPS, (seq,)):
            DECODED.decode(swaps)


def _cpu_ms(work: Callable[[], object]) -> float:
    begun = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begun) / 1e6
