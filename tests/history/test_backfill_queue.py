"""Tests that ingest reads requested backfills, also after failures and a kill at each call."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from mintscope.app.stores.folder import MARKET_FILE
from mintscope.app.stores.stores import Market, backfill_lock
from mintscope.history.backfill import (
    BackfillIsRead,
    BackfillJob,
    BackfillState,
    Cost,
    IncompleteBackfill,
    Kind,
    Stage,
    Survey,
)
from mintscope.history.worker import FAILURES_MAX, BackfillQueue
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable, StoreUnavailable
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.solana.blocks import SourceError
from support.fakes.made_chain import MINTS
from support.scenes.stores import config_in, market_in

A, B, *_ = MINTS
NOW = UnixMs(1_790_000_000_000)
SINCE, REACHED = UnixS(100), UnixS(200)


class Killed(BaseException):
    """Raised in place of a call, as if the process was killed at this call."""


@dataclass
class ScriptedBackfill:
    """A fake source of backfills; while `trouble` has errors, each call raises the next one."""

    market: Market
    trouble: list[Exception] = field(default_factory=list)
    reads: int = 0

    async def survey(self, _mint: Mint, from_time: UnixS) -> Survey:
        if self.trouble:
            raise self.trouble.pop(0)
        return Survey(max(from_time, REACHED), {"pool": Kind.POOL}, Cost(120, 130, 13.0))

    async def read(self, mint: Mint, _since: UnixS, progress: Callable[[str, int], None]) -> None:
        self.reads += 1
        if self.trouble:
            raise self.trouble.pop(0)
        await self.market.history.round(mint, Slot(5))
        progress("listed", 2)
        progress("read", 2)
        await self.market.history.finish(mint, None)


@dataclass
class Scene:
    folder: Path
    market: Market
    source: ScriptedBackfill
    backfills: BackfillQueue

    async def ask(self, mint: Mint = A) -> None:
        assert await self.market.backfill_jobs.ask(mint, SINCE, NOW)

    async def newest(self) -> BackfillJob:
        return (await self.market.backfill_jobs.newest(1))[0]

    async def confirmed(self) -> None:
        await self.ask()
        assert await self.backfills.estimate_one()
        assert await self.market.backfill_jobs.confirm((await self.newest()).ask_id) == A

    def join(self) -> None:
        """Join the backfills that are ready, as ingest does between two blocks."""
        self.execute("UPDATE history_job SET stage = 'joined' WHERE stage = 'ready'")

    def execute(self, statement: str) -> None:
        db = apsw.Connection(str(self.folder / MARKET_FILE))
        db.execute("PRAGMA foreign_keys = ON")
        db.execute(statement)
        db.close()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with market_in(tmp_path) as market:
        await market.tracking.add(A)
        source = ScriptedBackfill(market)

        async def pause(_: float) -> None:
            made.join()
            await asyncio.sleep(0)

        backfills = BackfillQueue(
            queue=market.backfill_jobs,
            jobs=market.history,
            source=source,
            lock=lambda: backfill_lock(config_in(tmp_path)),
            clock=ManualClock(NOW),
            pause=pause,
        )
        made = Scene(tmp_path, market, source, backfills)
        yield made


async def test_a_backfill_is_read_only_after_its_estimate_is_confirmed(scene: Scene) -> None:
    assert not await scene.backfills.estimate_one()
    await scene.ask()
    assert not await scene.backfills.read_one()
    assert await scene.backfills.estimate_one()
    estimated = await scene.newest()
    assert (estimated.state, estimated.from_time) == (BackfillState.ESTIMATED, REACHED)
    assert estimated.cost == Cost(120, 130, 13)
    assert not await scene.backfills.read_one()
    assert scene.source.reads == 0
    await scene.market.backfill_jobs.confirm(estimated.ask_id)
    assert await scene.backfills.read_one()
    done = await scene.newest()
    assert (done.state, done.words, done.ended_at) == (BackfillState.DONE, "", NOW)
    job = await scene.market.history.one(A)
    assert job is not None
    assert (job.stage, job.from_time) == (Stage.JOINED, REACHED)
    assert not await scene.backfills.read_one()


async def test_a_backfill_that_the_survey_refuses_fails_with_the_reason(scene: Scene) -> None:
    scene.source.trouble = [ValueError("it has candles since then: nothing is missing")]
    await scene.ask()
    await scene.backfills.estimate_one()
    failed = await scene.newest()
    assert failed.state is BackfillState.FAILED
    assert failed.words == "it has candles since then: nothing is missing"


async def test_a_failing_node_is_retried_up_to_a_limit(scene: Scene) -> None:
    scene.source.trouble = [SourceError("no answer")] * (FAILURES_MAX - 1)
    await scene.confirmed()
    scene.source.trouble = [SourceError("no answer")] * (FAILURES_MAX - 1)
    await scene.backfills.read_one()
    assert (await scene.newest()).state is BackfillState.DONE

    scene.source.trouble = [SourceError("no answer")] * FAILURES_MAX
    await scene.ask()
    await scene.backfills.estimate_one()
    assert (await scene.newest()).words == "no answer"


async def test_an_incomplete_backfill_is_kept_and_its_message_names_the_command(
    scene: Scene,
) -> None:
    await scene.confirmed()
    await scene.market.history.begin(A, REACHED, {"pool": Kind.POOL})
    scene.source.trouble = [IncompleteBackfill("2 transactions it did not give")]
    await scene.backfills.read_one()
    failed = await scene.newest()
    assert failed.state is BackfillState.FAILED
    assert f"mintscope history {A} --days " in failed.words
    assert await scene.market.history.one(A) is not None


async def test_a_bug_ends_one_backfill_but_not_the_next(scene: Scene) -> None:
    await scene.confirmed()
    scene.source.trouble = [TypeError("none")]
    await scene.backfills.read_one()
    assert "An error of the service" in (await scene.newest()).words
    await scene.confirmed()
    await scene.backfills.read_one()
    assert (await scene.newest()).state is BackfillState.DONE


async def test_a_backfill_fails_if_its_token_is_untracked_during_the_read(scene: Scene) -> None:
    await scene.confirmed()

    async def read(*_: object) -> None:
        await scene.market.tracking.remove(A)
        await scene.market.history.round(A, Slot(5))

    backfills = replace(scene.backfills, source=Reading(scene.source.survey, read))
    await backfills.read_one()
    failed = await scene.newest()
    assert (failed.state, failed.words) == (
        BackfillState.FAILED,
        "This token is no longer tracked.",
    )


@dataclass
class Reading:
    survey: Any
    read: Any


async def test_a_backfill_that_is_cancelled_during_its_read_is_deleted(scene: Scene) -> None:
    await scene.confirmed()

    async def read(*_: object) -> None:
        await scene.market.backfill_jobs.cancel((await scene.newest()).ask_id, NOW)
        await asyncio.Event().wait()

    backfills = replace(scene.backfills, source=Reading(scene.source.survey, read))
    await asyncio.wait_for(backfills.read_one(), 30)
    assert (await scene.newest()).state is BackfillState.CANCELLING
    await backfills.read_one()
    assert (await scene.newest()).state is BackfillState.CANCELLED
    assert await scene.market.history.one(A) is None


async def test_a_cancelled_backfill_is_kept_while_another_process_reads_it(scene: Scene) -> None:
    """For example, ingest was killed, and `mintscope history` resumed the backfill of the token."""
    await scene.confirmed()
    ask_id = (await scene.newest()).ask_id
    assert await scene.market.backfill_jobs.began(ask_id, REACHED)
    await scene.market.history.begin(A, REACHED, {"pool": Kind.POOL})
    assert await scene.market.backfill_jobs.cancel(ask_id, NOW) == A
    async with backfill_lock(config_in(scene.folder)):
        assert not await scene.backfills.read_one()
        assert await scene.market.history.one(A) is not None
        assert (await scene.newest()).state is BackfillState.CANCELLING
    assert await scene.backfills.read_one()
    assert await scene.market.history.one(A) is None
    assert (await scene.newest()).state is BackfillState.CANCELLED


async def test_one_process_reads_at_a_time(scene: Scene) -> None:
    """While another process, such as `mintscope history`, reads a backfill, the queue waits."""
    await scene.confirmed()
    others: list[str] = []

    @asynccontextmanager
    async def lock() -> AsyncIterator[None]:
        if not others:
            others.append("another")
            raise BackfillIsRead
        async with backfill_lock(config_in(scene.folder)):
            with pytest.raises(BackfillIsRead):
                async with backfill_lock(config_in(scene.folder)):
                    pass
            yield

    await replace(scene.backfills, lock=lock).read_one()
    assert (await scene.newest()).state is BackfillState.DONE


@pytest.mark.parametrize("away", [StoreUnavailable("away"), ServiceUnavailable("away")])
async def test_an_unavailable_store_ends_no_backfill(scene: Scene, away: Exception) -> None:
    await scene.confirmed()

    async def read(*_: object) -> None:
        raise away

    with pytest.raises(type(away)):
        await replace(scene.backfills, source=Reading(scene.source.survey, read)).read_one()
    assert (await scene.newest()).state is BackfillState.READING
    await scene.backfills.read_one()
    assert (await scene.newest()).state is BackfillState.DONE


class Mortal:
    """Raises Killed at the *life*-th moment: one before and one after each call of a port."""

    def __init__(self, life: int) -> None:
        self.life = life

    def around(self, port: object) -> Any:
        mortal = self

        class Around:
            def __getattr__(self, name: str) -> Any:
                async def call(*arguments: Any) -> Any:
                    mortal.spend()
                    found = await getattr(port, name)(*arguments)
                    mortal.spend()
                    return found

                return call

        return Around()

    def spend(self) -> None:
        self.life -= 1
        if self.life == 0:
            raise Killed


async def test_the_next_ingest_completes_a_backfill_after_a_kill_at_any_call(scene: Scene) -> None:
    life, is_over = 0, False
    while not is_over:
        life += 1
        await scene.confirmed()
        mortal = Mortal(life)
        backfills = replace(
            scene.backfills,
            queue=mortal.around(scene.backfills.queue),
            jobs=mortal.around(scene.backfills.jobs),
            source=mortal.around(scene.source),
        )
        try:
            await backfills.read_one()
        except Killed:
            scene.join()  # the next ingest may join the backfill before it reads the requests
            job = await scene.market.history.one(A)
            reads = scene.source.reads
            await scene.backfills.read_one()
            if job is not None and job.stage is Stage.JOINED:
                assert scene.source.reads == reads, "what is joined is not read again"
        else:
            is_over = True
        done = await scene.newest()
        assert (done.state, done.words) == (BackfillState.DONE, ""), life
        scene.execute("DELETE FROM history_job")
    assert life > 10
