"""`market.sqlite` has the same rows as after one run without faults, whatever a source does."""

import asyncio
import math
import os
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.dex.outcome import Decoded, Moved, Quarantined, QuarantineReason, Swap, Unlisted
from mintscope.ingest.pipeline import Ingest, SourceBroken
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import InsufficientData, UnusableStore
from mintscope.kit.metrics import UNKNOWN_INSTRUCTIONS
from mintscope.kit.primitives import Mint, Signature, Slot, UnixMs
from mintscope.market.engine.engine import LiveMarket
from mintscope.market.engine.fold import ForkBelowFinalized
from mintscope.market.log import LogTrimmed
from mintscope.market.ports import Floor
from mintscope.market.store.log_reader import SqlLogReader, swaps_of
from mintscope.market.store.log_writer import SqlMarketStore
from mintscope.solana.blocks import USDC, WSOL, Block, Finalized, Gap, Source, Tip, Update
from mintscope.solana.transaction import Transaction, UnreadableTransaction
from support.fakes.made_chain import (
    MINTS,
    ListSource,
    block,
    decode_made,
    random_chain,
    random_swaps,
    sol_sale,
    swap,
)
from support.oracles.market_file import kept
from support.oracles.slow_market import candles
from support.scenes.stores import market_in

STORM_IS_FULL = os.environ.get("STORM") == "full"  # noqa: TID251 - only how long
FOLLOWED = [WSOL, *MINTS]


def ingest(source: Source, store: SqlMarketStore, *, floor: Floor | None = None) -> Ingest:
    return Ingest(
        source=source,
        store=store,
        decode=decode_made,
        clock=ManualClock(UnixMs(0)),
        mints=FOLLOWED if floor is None else [WSOL],
        floor=floor,
    )


async def run(source: Source, folder: Path, *, floor: Floor | None = None) -> None:
    async with market_in(folder, follows_all=floor is not None) as market:
        await asyncio.wait_for(ingest(source, market.store, floor=floor).run(), 60)


@dataclass
class StormySource:
    """A source that drops, repeats, reorders and forks blocks, but reports finality correctly.

    blocks   the chain that remains in the end
    final    the index of the newest block reported as final: no fork begins below this block
    """

    blocks: Sequence[Block]
    random: Random
    pools: Sequence[str] = ("made",)
    final: int = 0
    calls: int = 0
    dead: list[tuple[int, Block]] = field(default_factory=list)

    async def genesis_hash(self) -> str | None:
        """Return None, because a made-up chain has no genesis hash."""
        return None

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        """Yield updates from a few slots before *after* on, which may be on an orphaned fork."""
        self.calls += 1
        reported = -1
        if after is not None:
            reported = max(sum(one.slot <= after.slot for one in self.blocks) - OVERLAP, reported)
        calm_until = reported + OVERLAP + 3 if self.calls % 2 == 0 else 0
        for n in range(reported + 1, len(self.blocks)):
            is_calm = n <= calm_until
            for update in [self.blocks[n]] if is_calm else self._say(n):
                yield update
            if self.random.random() < 0.2:
                for again in self.blocks[reported + 1 : n + 1]:
                    yield again
                reported = n
                self.final = max(self.final, n)
                yield Finalized(self.blocks[n].slot)
        for again in self.blocks[reported + 1 :]:
            yield again
        yield Finalized(self.blocks[-1].slot)

    def _say(self, n: int) -> list[Update]:
        """Return the updates that the source yields in place of block *n*."""
        made = self.blocks[n]
        said: list[Update] = [made]
        match self.random.choice(WEATHER):
            case "drop":
                said = []
            case "repeat":
                said.append(self.random.choice(self.blocks[max(0, n - 9) : n + 1]))
            case "reorder":
                said = [*self.blocks[n + 1 : n + 2], made]
            case "fork" if self.final < n < len(self.blocks) - 1:  # the last block settles it
                said += self._fork(self.random.randint(self.final, n))
            case "fork first" if n > self.final:
                said = [*self._fork(n - 1), made]
            case "dead":
                stale = [one for root, one in self.dead if root >= self.final]
                said = [*self.random.sample(stale, k=min(1, len(stale))), made]
            case _:
                pass
        return said

    def _fork(self, n: int) -> list[Update]:
        """Return a branch that will die, growing from block *n*, perhaps with a hole."""
        branch: list[Block] = []
        parent = self.blocks[n]
        for _ in range(self.random.randint(1, 3)):
            slot = parent.slot + self.random.randint(1, 2)
            time = (self.blocks[n].time or 0) + self.random.randrange(90)
            fork = f"-fork-{len(self.dead)}"
            parent = block(
                slot,
                parent,
                random_swaps(self.random, pools=self.pools),
                time=time,
                fork=fork,
            )
            branch.append(parent)
            self.dead.append((n, parent))
        return list(branch[self.random.choice([0, 0, 0, 1]) :])


OVERLAP = 10
WEATHER = ["calm"] * 8 + ["drop", "repeat", "reorder", "fork", "fork first", "dead"]


class LogTailer:
    """Follows a log, event by event, with `LiveMarket`, as an api process does."""

    def __init__(self, reader: SqlLogReader, random: Random) -> None:
        self.reader = reader
        self.live = LiveMarket(3)  # smaller than the market: mints are evicted and loaded again
        self._random = random

    async def watch(self, updates: AsyncIterator[Update]) -> AsyncIterator[Update]:
        """Yield *updates*, and read the log at random times while they are ingested."""
        async for update in updates:
            yield update
            if self._random.random() < 0.1:
                wanted = self._random.choice(FOLLOWED)
                if wanted in self.live.tracked:
                    await self.load(wanted)
                await self.catch_up()

    async def catch_up(self) -> None:
        try:
            while events := await self.reader.events(self.live.seq, self._random.randint(1, 9)):
                for event in events:
                    self.live.apply(event)
        except LogTrimmed:
            self.live.restart(await self.reader.tip(), (await self.reader.tracked())[1])

    async def load(self, mint: Mint) -> None:
        for _ in range(3):
            if mint in self.live:
                return
            self.live.expect(mint)
            loaded = await self.reader.load(mint)
            await self.catch_up()
            if loaded is None or self.live.insert(loaded):
                return

    async def reports(self) -> dict[Mint, bytes | None]:
        return {mint: await self._report(mint) for mint in FOLLOWED}

    async def _report(self, mint: Mint) -> bytes | None:
        await self.catch_up()
        await self.load(mint)
        try:
            return self.live.report(mint) if mint in self.live else None
        except InsufficientData:
            return None


@dataclass
class Watched:
    """The source *source*, during whose updates the log tailer *follower* reads the log."""

    source: Source
    follower: LogTailer

    async def genesis_hash(self) -> str | None:
        return await self.source.genesis_hash()

    def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        return self.follower.watch(self.source.updates(after))


async def both_folds(
    source: Source, folder: Path, random: Random, floor: Floor | None = None
) -> dict[Mint, bytes | None]:
    """Ingest *source* while a second reader follows the log; return that reader's last reports."""
    async with market_in(folder, follows_all=floor is not None) as market:
        follower = LogTailer(market.reader, random)
        watched = Watched(source, follower)
        await asyncio.wait_for(ingest(watched, market.store, floor=floor).run(), 60)
        while await market.store.trim(100):
            pass
        return await follower.reports()


FLOORS = [None, Floor(swaps_min=4, volume_min=10**6, dead_after_days=1)]


@pytest.mark.storm
@pytest.mark.parametrize("floor", FLOORS, ids=["listed", "all"])
@settings(max_examples=500 if STORM_IS_FULL else 12, derandomize=True, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    length=st.integers(5, 90),
    spread_s=st.sampled_from([3, 40, 4000]),
    pools=st.sampled_from([("made",), ("a", "b"), ("a", "b", "c", "made")]),
)
def test_a_source_with_forks_and_repeats_ends_with_the_same_rows_and_reports(
    floor: Floor | None, seed: int, length: int, spread_s: int, pools: Sequence[str]
) -> None:
    blocks = random_chain(seed, length, spread_s=spread_s, pools=pools)
    random = Random(seed)
    with TemporaryDirectory() as folder:
        calm, stormy = Path(folder) / "calm.sqlite", Path(folder) / "stormy.sqlite"
        expected = asyncio.run(both_folds(ListSource(blocks), calm, random, floor))
        served = asyncio.run(both_folds(StormySource(blocks, random, pools), stormy, random, floor))

        assert kept(stormy) == kept(calm)
        assert served == expected


@settings(max_examples=15, derandomize=True, deadline=None)
@given(seed=st.integers(0, 2**32), spread_s=st.sampled_from([3, 40]))
def test_candles_equal_their_definition(seed: int, spread_s: int) -> None:
    blocks = random_chain(seed, 60, spread_s=spread_s)
    with TemporaryDirectory() as folder:
        path = Path(folder)
        asyncio.run(run(ListSource(blocks), path))
        rows = {tuple(row[:3]): row[3:] for row in kept(path)["candles"]}
    expected = candles(blocks, FOLLOWED)

    assert rows.keys() == expected.keys()
    for key, row in rows.items():
        assert row[4:] == expected[key][4:], key
        for ours, theirs in zip(row[:4], expected[key][:4], strict=True):
            assert ours == theirs if theirs is None else math.isclose(ours, theirs, rel_tol=1e-14)


@pytest.mark.storm
@pytest.mark.parametrize("floor", FLOORS, ids=["listed", "all"])
def test_a_crash_at_any_commit_changes_no_rows(floor: Floor | None, tmp_path: Path) -> None:
    """A crash loses all work since the last commit, as kill -9 does."""
    blocks = random_chain(7, 150, spread_s=900, pools=("a", "b"))
    asyncio.run(run(ListSource(blocks), tmp_path / "calm", floor=floor))
    expected, commits = kept(tmp_path / "calm"), 0
    while True:
        path = tmp_path / f"crash-{commits}"
        with only_commits(commits):
            try:
                asyncio.run(run(ListSource(blocks), path, floor=floor))
                break
            except (apsw.ConstraintError, UnusableStore):
                commits += 1
        asyncio.run(run(ListSource(blocks), path, floor=floor))
        assert kept(path) == expected

    assert commits > 10


async def test_a_private_pool_moves_no_prices_even_over_a_restart(
    tmp_path: Path,
) -> None:
    """The pool has wash trades at 1,000 and at 1/1,000 times the price; ingest starts again."""

    def chain(*, attacked: bool) -> list[Block]:
        blocks: list[Block] = []
        for number in range(1_400):
            sold = [
                sol_sale(100.0)._replace(pool="sol"),
                token_sale("honest", 2.0 + number % 3 / 50),
            ]
            if attacked and number > 700:
                sold += [token_sale("private", price) for price in (2_000.0, 0.002)] * 3
                sold += [sol_sale(10.0, sol=10**4)._replace(pool="private")]
            blocks.append(block(number + 1, blocks[-1] if blocks else None, sold))
        return blocks

    served = []
    for attacked in (False, True):
        folder, blocks = tmp_path / str(attacked), chain(attacked=attacked)
        await run(ListSource(blocks[:1_000]), folder)
        await run(ListSource(blocks), folder)
        rows = kept(folder)["candles"]
        served.append([row[:7] for row in rows if row[0] in {WSOL, MINTS[0]}])

    assert served[0] == served[1] != []


@pytest.mark.parametrize("moves", [-0.4, 0.25, 0.08])
async def test_a_token_that_leaves_its_curve_is_priced_by_its_new_pool(
    tmp_path: Path, moves: float
) -> None:
    """The new pool sets the price from its fifth swap on, at any price, also after a restart."""

    def traded(number: int) -> list[Swap]:
        sol = sol_sale(100.0)._replace(pool="sol")
        if number < 600:
            return [sol, standing_sale("curve", 2.0, 17_000, number)]
        usd = 2.0 * (1 + moves * min(1.0, (number - 600) / 20))
        return [sol, standing_sale("pool", usd, 12_000, number)]

    blocks: list[Block] = []
    for number in range(700):
        blocks.append(block(number + 1, blocks[-1] if blocks else None, traded(number)))
    await run(ListSource(blocks[:605]), tmp_path / "twice")
    await run(ListSource(blocks), tmp_path / "twice")
    await run(ListSource(blocks), tmp_path / "once")

    once, twice = kept(tmp_path / "once"), kept(tmp_path / "twice")
    assert once["candles"] == twice["candles"]
    with apsw.Connection(str(tmp_path / "once" / MARKET_FILE)) as db:
        seconds = [swaps_of(MINTS[0], blob) for (blob,) in db.execute(
            "SELECT swaps FROM swap JOIN mint ON mint.id = mint WHERE address = ? ORDER BY seq",
            (MINTS[0],),
        )]  # fmt: skip
    prices = [swap.price_usd for swaps in seconds for swap in swaps]
    assert None not in prices[:600]
    assert None not in prices[604:]


@pytest.mark.parametrize("moves", [-0.4, 0.25, 2.0])
async def test_the_pool_of_a_migration_sets_the_price_at_once(tmp_path: Path, moves: float) -> None:
    """Ingest restarts between the migration and the first swap of the pool that it names."""

    def traded(number: int) -> list[Swap]:
        sol = sol_sale(100.0)._replace(pool="sol")
        if number < 100:
            return [sol, standing_sale("curve", 2.0, 17_000, number)]
        if number == 100:
            left = token_sale("pool", 1.0)
            return [sol, left._replace(in_amount=0, out_amount=0, succeeds="curve")]
        strange = standing_sale("stranger", 2.0, 5_000, number)
        return [sol, standing_sale("pool", 2.0 * (1 + moves), 12_000, number), strange]

    blocks: list[Block] = []
    for number in range(120):
        blocks.append(block(number + 1, blocks[-1] if blocks else None, traded(number)))
    await run(ListSource(blocks[:101]), tmp_path / "twice")
    await run(ListSource(blocks), tmp_path / "twice")
    await run(ListSource(blocks), tmp_path / "once")

    once, twice = kept(tmp_path / "once"), kept(tmp_path / "twice")
    assert once["candles"] == twice["candles"]
    with apsw.Connection(str(tmp_path / "once" / MARKET_FILE)) as db:
        logged = [one for (blob,) in db.execute(
            "SELECT swaps FROM swap JOIN mint ON mint.id = mint WHERE address = ? ORDER BY seq",
            (MINTS[0],),
        ) for one in swaps_of(MINTS[0], blob)]  # fmt: skip
    assert [one.pool for one in logged if one.evidence and one.evidence.succeeds] == ["pool"]
    assert None not in [one.price_usd for one in logged if one.pool == "pool"][1:]
    assert {one.price_usd for one in logged if one.pool == "stranger"} == {None}


def standing_sale(pool: str, usd: float, depth: int, number: int) -> Swap:
    """Return a sale at *usd* by signer *number*, after which *pool* has *depth* US dollars."""
    one = token_sale(pool, usd)
    return one._replace(signer=f"{number} of many", out_left=depth * 10**6)


def token_sale(pool: str, usd: float) -> Swap:
    one = swap(MINTS[0], USDC, base_amount=10**9, quote_amount=int(usd * 10**9), is_buy=False)
    return one._replace(pool=pool, signer=pool)


@contextmanager
def only_commits(limit: int) -> Iterator[None]:
    """Allow *limit* commits to the connections opened in the `with` block; later ones fail."""
    left = limit

    def refuse() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    def watch(connection: apsw.Connection) -> None:
        connection.set_commit_hook(refuse)

    apsw.connection_hooks.append(watch)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(watch)


@dataclass
class OfChain:
    """The source *source* with *chain* as its genesis hash."""

    source: Source
    chain: str

    async def genesis_hash(self) -> str | None:
        return self.chain

    def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        return self.source.updates(after)


async def test_a_node_of_another_chain_is_refused_with_the_reason(tmp_path: Path) -> None:
    """The first blocks came from a file, which names no chain; the next node sets the chain."""
    first, second = block(10, None, [sol_sale(100)]), block(11, None, [sol_sale(200)])
    await run(Said([first, Finalized(Slot(10))]), tmp_path)
    await run(OfChain(Said([]), "mainnet"), tmp_path)
    before = kept(tmp_path)

    with pytest.raises(SourceBroken, match="genesis hash mainnet; was devnet"):
        await run(OfChain(Said([second, Finalized(Slot(11))]), "devnet"), tmp_path)

    assert kept(tmp_path) == before
    await run(OfChain(Said([]), "mainnet"), tmp_path)


async def test_the_log_continues_after_a_gap(tmp_path: Path) -> None:
    before, after = block(10, None, [sol_sale(100)]), block(50, Tip(Slot(49), "unseen"))
    gap = Gap(Slot(11), Slot(49), "gone")
    await run(Said([before, gap, after, Finalized(Slot(50))]), tmp_path)

    assert kept(tmp_path)["progress"][0][:2] == (50, 50)


async def test_a_source_that_never_delivers_a_missing_block_is_an_error(tmp_path: Path) -> None:
    source = Said([block(10, None), block(12, Tip(Slot(11), "unseen"))])

    with pytest.raises(SourceBroken, match="expected block 11 before 12"):
        await run(source, tmp_path)
    assert len(source.asked) == 6


async def test_a_fork_below_finality_stops_ingest_with_the_reason(tmp_path: Path) -> None:
    first = block(10, None)
    second = block(11, first)
    fork = block(12, first, fork="'")

    with pytest.raises(ForkBelowFinalized, match="finalized slot 11; block 12 has parent 10"):
        await run(Said([first, second, Finalized(Slot(11)), fork]), tmp_path)
    assert kept(tmp_path)["progress"][0][0] == 11


async def test_a_source_that_fails_loses_none_of_its_blocks(tmp_path: Path) -> None:
    source = Said([block(10, None), Finalized(Slot(10))], failure=OSError("cable"))

    with pytest.raises(OSError, match="cable"):
        await run(source, tmp_path)
    assert kept(tmp_path)["progress"][0][:2] == (10, 10)


async def test_ingest_resumes_after_the_newest_block(tmp_path: Path) -> None:
    blocks = random_chain(1, 20)
    await run(ListSource(blocks[:9]), tmp_path)
    source = ListSource(blocks)
    await run(source, tmp_path)

    assert source.asked == [Tip(blocks[8].slot, blocks[8].blockhash)]


async def test_a_cancelled_ingest_leaves_no_task_behind(tmp_path: Path) -> None:
    source = Said([block(10, None)], forever=True)
    async with market_in(tmp_path) as market:
        task = asyncio.create_task(ingest(source, market.store).run())
        await asyncio.wait_for(source.drained.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert source.closed
    assert asyncio.all_tasks() == {asyncio.current_task()}


def quarantine(folder: Path) -> list[tuple[Any, ...]]:
    db = apsw.Connection(str(folder / MARKET_FILE))
    try:
        return list(db.execute("SELECT * FROM quarantine"))
    finally:
        db.close()


async def test_a_transaction_that_breaks_the_decoder_is_quarantined_alone(tmp_path: Path) -> None:
    poison = block(10, None, [sol_sale(100), sol_sale(7, sol=7), sol_sale(200, sol=2)])

    def decode(transactions: Iterable[Transaction | UnreadableTransaction]) -> Decoded:
        decoded = decode_made(transactions)
        if any(one.in_amount == 7 * 10**9 for one in decoded.swaps):
            raise ZeroDivisionError
        return decoded

    source = Said([poison, Finalized(Slot(10))])
    async with market_in(tmp_path) as market:
        await replace(ingest(source, market.store), decode=decode).run()
    rows = quarantine(tmp_path)

    assert rows == [(1, 10, None, "unknown", "decoder_bug")]
    (_, _, _, opened, _, _, closed, *_) = kept(tmp_path)["candles"][0]
    assert (opened, closed) == (100.0, 200.0)


async def test_quarantined_transactions_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    def decode(transactions: Iterable[Transaction | UnreadableTransaction]) -> Decoded:
        one = Quarantined(Signature("s"), 0, "raydium_v4", QuarantineReason.NO_MOVEMENT)
        return Decoded([], [one] * len(list(transactions)), [])

    source = Said([block(10, None, [sol_sale(100)] * 300)])
    async with market_in(tmp_path) as market:
        await replace(ingest(source, market.store), decode=decode).run()

    rows = quarantine(tmp_path)
    assert len(rows) == 100
    assert rows[0] == (1, 10, "s", "raydium_v4", "no_movement")


async def test_unread_calls_are_counted_with_their_value(tmp_path: Path) -> None:
    """Unread calls of one kind moved 1.5 SOL at 100 USD; kinds above the limit are one kind."""

    def decode(transactions: Iterable[Transaction | UnreadableTransaction]) -> Decoded:
        list(transactions)
        new = Quarantined(
            Signature("new"), 0, "raydium_cpmm", QuarantineReason.UNKNOWN_INSTRUCTION, "0102",
            Moved(WSOL, 1_500_000_000),
        )  # fmt: skip
        named = [Unlisted(Signature("s"), "address", "", Moved(USDC, 7_000_000))]
        many = [Unlisted(Signature("m"), "other program", f"{i:04x}", None) for i in range(100)]
        return Decoded([sol_sale(100)], [new], named + many)

    async with market_in(tmp_path) as market:
        source = Said([block(10, None, [sol_sale(100)])])
        await replace(ingest(source, market.store), decode=decode).run()
        found = await market.reader.not_read(100)

    assert [(one.program, one.head, one.volume, one.signature) for one in found[:2]] == [
        ("raydium_cpmm", "0102", 150_000_000, "new"),
        ("address", "", 7_000_000, "s"),
    ]
    assert (found[2].program, found[2].count, len(found)) == ("other", 52, 51)


async def test_unknown_instructions_have_a_bounded_number_of_labels(tmp_path: Path) -> None:
    def decode(transactions: Iterable[Transaction | UnreadableTransaction]) -> Decoded:
        list(transactions)
        reason = QuarantineReason.UNKNOWN_INSTRUCTION
        quarantined = [
            Quarantined(Signature("s"), 0, "saber", reason, f"{i:016x}") for i in range(205)
        ]
        return Decoded([], quarantined, [])

    async with market_in(tmp_path) as market:
        source = Said([block(10, None, [sol_sale(100)])])
        await replace(ingest(source, market.store), decode=decode).run()

    labels = {
        sample.labels["discriminator"]: sample.value
        for metric in UNKNOWN_INSTRUCTIONS.collect()
        for sample in metric.samples
        if sample.name.endswith("_total") and sample.labels["program"] == "saber"
    }
    assert (len(labels), labels["other"], labels[f"{7:016x}"]) == (201, 5, 1)


@settings(max_examples=20, derandomize=True, deadline=None)
@given(data=st.data())
def test_insane_amounts_neither_stop_ingest_nor_move_the_price(data: st.DataObject) -> None:
    amounts = st.sampled_from([0, 1, 999, 10**6, 2**63 - 1, 2**63, 2**64 - 1])
    insane = [
        swap(
            MINTS[0],
            data.draw(st.sampled_from([WSOL, USDC])),
            base_amount=data.draw(amounts),
            quote_amount=data.draw(amounts),
            base_decimals=data.draw(st.sampled_from([None, 0, 18, 255])),
            is_buy=data.draw(st.booleans()),
        )
        for _ in range(20)
    ]
    blocks = [block(1, None, [sol_sale(100), *insane])]
    with TemporaryDirectory() as folder:
        asyncio.run(run(ListSource(blocks), Path(folder)))
        rows = kept(Path(folder))["candles"]
    sol = [row for row in rows if row[0] == WSOL]

    assert all(row[3:7] == (100.0, 100.0, 100.0, 100.0) for row in sol)
    for *_, opened, high, low, closed, buys, sells, count in rows:
        assert 0 <= buys + sells < 2**62
        assert (count == 0) is (opened is None)
        assert count == 0 or 0 < low <= min(opened, closed) <= max(opened, closed) <= high < 2e12


@dataclass
class Said:
    """A source that yields the same updates in each run, and then ends, fails or waits."""

    updates_: Sequence[Update]
    failure: Exception | None = None
    forever: bool = False
    asked: list[Tip | None] = field(default_factory=list)
    closed: bool = False
    drained: asyncio.Event = field(default_factory=asyncio.Event)

    async def genesis_hash(self) -> str | None:
        """Return None, because a made-up chain has no genesis hash."""
        return None

    async def updates(self, after: Tip | None) -> AsyncIterator[Update]:
        self.asked.append(after)
        try:
            for update in self.updates_:
                yield update
            if self.failure is not None:
                raise self.failure
            self.drained.set()
            if self.forever:
                await asyncio.Event().wait()
        finally:
            self.closed = True
