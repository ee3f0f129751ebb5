"""Backfills of tokens that administrators request on a page."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mintscope.app.config.config import ChainConfig
from mintscope.app.stores.folder import MONEY_FILE
from mintscope.app.stores.stores import Market
from mintscope.history.backfill import OPEN_MAX, BackfillState, Cost
from mintscope.kit.primitives import Mint, UnixS
from mintscope.solana.blocks import USDC, WSOL
from support.scenes.engine import rows_of
from support.scenes.people.web_person import ORIGIN, Person, where, words
from support.scenes.stores import market_in
from support.scenes.website import ADMINISTRATOR, Website, website

BONK = Mint("DezXAZ8z7PnrnRJjz3wXBoRgixCa6xjnB7YaB1pPB263")
BACKFILLS, AUDIT = "/admin/tokens/history", "/admin/audit"


@pytest.fixture
async def market(site: Website) -> AsyncIterator[Market]:
    async with market_in(site.folder) as market:
        await market.tracking.add(BONK)
        yield market


def asking(mint: str = BONK, days: str = "10") -> dict[str, str]:
    return {"do": "ask", "mint": mint, "days": days}


async def test_a_backfill_is_requested_confirmed_and_shown_to_its_end(
    administrator: Person, market: Market
) -> None:
    assert "No history was requested yet." in words(await administrator.open(BACKFILLS))
    assert where(await administrator.send(BACKFILLS, asking())).startswith(BACKFILLS)
    asked = await administrator.open(BACKFILLS)
    assert f"{BONK} Being estimated" in words(asked)
    assert 'hx-trigger="every 3s"' in asked.text
    again = asked.text.partition('hx-get="')[2].partition('"')[0]
    assert (await administrator.open(again)).status_code == 204, "nothing has changed"
    (ask,) = await market.backfill_jobs.newest(9)
    await market.backfill_jobs.estimated(ask.ask_id, ask.from_time, Cost(12_340, 12_400, 1_240.0))
    estimated = await administrator.open(again)
    assert "Waits for your confirmation" in words(estimated)
    assert "About 12,340 transactions, 12,400 requests to the node, 21 min." in words(estimated)
    assert "hx-trigger" not in estimated.text, "nothing changes without a yes"
    yes = {"do": "confirm", "ask": str(ask.ask_id)}
    await administrator.send(BACKFILLS, yes)
    assert "notice=past-as-it-was" in where(await administrator.send(BACKFILLS, yes))
    assert f"{BONK} Waits for its turn" in words(await administrator.open(BACKFILLS))
    await market.backfill_jobs.began(ask.ask_id, ask.from_time)
    await market.backfill_jobs.progress(ask.ask_id, 6_000, 3_000, "Waits for the node: <b>")
    reading = await administrator.open(BACKFILLS)
    assert "3,000 read, 6,000 listed of about 12,340" in words(reading)
    assert 'width="24.3"' in reading.text
    assert "<b>" not in reading.text
    await market.backfill_jobs.end(
        ask.ask_id, BackfillState.FAILED, "None was found.", ask.asked_at
    )
    assert "None was found." in words(await administrator.open(BACKFILLS))
    log = words(await administrator.open(AUDIT))
    assert log.count("requested a backfill") == log.count("confirmed a backfill") == 1


async def test_a_backfill_is_cancelled_by_its_button(administrator: Person, market: Market) -> None:
    await administrator.send(BACKFILLS, asking())
    (ask,) = await market.backfill_jobs.newest(9)
    await administrator.send(BACKFILLS, {"do": "cancel", "ask": str(ask.ask_id)})
    page = await administrator.open(BACKFILLS)
    assert f"{BONK} Cancelled" in words(page)
    assert 'value="cancel"' not in page.text
    assert "cancelled a backfill" in words(await administrator.open(AUDIT))


async def test_no_backfill_is_changed_if_the_audit_log_cannot_be_written(
    site: Website, administrator: Person, market: Market
) -> None:
    path = site.folder / MONEY_FILE
    full = "BEFORE INSERT ON account_event BEGIN SELECT raise(FAIL, 'full'); END"
    rows_of(path, f"CREATE TRIGGER full {full}")
    failed = await administrator.send(BACKFILLS, asking())
    none = await market.backfill_jobs.newest(9)
    rows_of(path, "DROP TRIGGER full")
    await administrator.send(BACKFILLS, asking())
    rows_of(path, f"CREATE TRIGGER full {full}")
    (ask,) = await market.backfill_jobs.newest(9)
    cancel = {"do": "cancel", "ask": str(ask.ask_id)}
    refused = await administrator.send(BACKFILLS, cancel)
    rows_of(path, "DROP TRIGGER full")

    assert (failed.status_code, refused.status_code) == (503, 503)
    assert none == []
    assert await market.backfill_jobs.newest(9) == [ask]


async def test_an_impossible_backfill_is_refused_with_the_reason(
    administrator: Person, market: Market
) -> None:
    for mint, days, reported in (
        ("none", "10", "Expected"),
        (WSOL, "10", "SOL is always tracked"),
        (USDC, "10", "Track it first"),
        *[(BONK, days, "1 to 180") for days in ("", "0", "181", "1.5", "x", "-1")],
    ):
        refused = await administrator.send(BACKFILLS, asking(mint, days))
        assert (refused.status_code, reported in words(refused)) == (422, True), (mint, days)
    assert await market.backfill_jobs.newest(1) == []


async def test_a_token_has_one_open_backfill_and_all_tokens_at_most_twenty(
    administrator: Person, market: Market
) -> None:
    await administrator.send(BACKFILLS, asking())
    twice = await administrator.send(BACKFILLS, asking())
    assert (twice.status_code, "already requested" in words(twice)) == (422, True)
    (ask,) = await market.backfill_jobs.newest(9)
    await market.backfill_jobs.cancel(ask.ask_id, ask.asked_at)
    for place in range(OPEN_MAX):
        await market.backfill_jobs.ask(Mint(str(place)), UnixS(1), ask.asked_at)
    full = await administrator.send(BACKFILLS, asking())
    assert (full.status_code, "20 backfills are waiting" in words(full)) == (422, True)


async def test_invalid_actions_and_other_users_change_no_backfill(
    site: Website, administrator: Person, market: Market
) -> None:
    for wrong, status in (({"do": "x"}, 400), ({"do": "confirm", "ask": "x"}, 404), ({}, 400)):
        assert (await administrator.send(BACKFILLS, wrong)).status_code == status
    assert "past-as-it-was" in where(
        await administrator.send(BACKFILLS, {"do": "cancel", "ask": "9"})
    )
    async with Person(site, address="198.51.100.9") as alice:
        await alice.sign_up()
        assert (await alice.open(BACKFILLS)).status_code == 404
    assert await market.backfill_jobs.newest(1) == []


async def test_the_page_refuses_backfills_if_blocks_come_from_files(tmp_path: Path) -> None:
    async with website(tmp_path, origin=ORIGIN, chain=ChainConfig(source="files")) as site:
        await site.make_administrator()
        async with Person(site) as person:
            await person.sign_in(ADMINISTRATOR)
            page = await person.open(BACKFILLS)
            assert "chain.source is files" in words(page)
            assert 'name="days"' not in page.text
            refused = await person.send(BACKFILLS, asking())
    assert (refused.status_code, "chain.source is files" in words(refused)) == (409, True)
