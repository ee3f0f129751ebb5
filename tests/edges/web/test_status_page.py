"""The page of the status: what works, what does not, and why."""

from collections.abc import Mapping
from pathlib import Path

from mintscope.base.primitives import Slot, UnixMs
from mintscope.base.solana import Gap
from mintscope.edges.web.front.status import BooksStatus, MarketStatus, ServiceStatus
from support.scenes.people.web_person import Person, words
from support.scenes.website import NOW, website

WELL = {"store": "ok", "data": "ok", "gaps": "ok", "chain": "ok", "sales": "ok"}
MARKET = MarketStatus(
    slot=Slot(350_000_040),
    folded_slot=Slot(350_000_008),
    age_ms=1_250,
    tracked_count=32,
    gap_count=0,
    gap_slots=0,
    gaps=[],
)


async def shown(
    folder: Path,
    *,
    checks: Mapping[str, str] = WELL,
    market: MarketStatus | None = MARKET,
    books: BooksStatus | None = None,
    is_selling: bool = False,
) -> str:
    """Return what the page says of such a status."""

    async def read() -> ServiceStatus:
        return ServiceStatus(checks, market, books, UnixMs(NOW - 90_000_000), is_selling)

    async with website(folder, status=read) as site, Person(site) as person:
        response = await person.open("/status")
        assert 'href="/status"' in (await person.open("/")).text
    assert response.status_code == 200
    return words(response)


async def test_a_service_that_works(tmp_path: Path) -> None:
    page = await shown(tmp_path)
    assert "Everything works" in page
    assert "1.2 s old Slot 350,000,040" in page
    assert "3 blocks By its age, a block each 0.4 s; the newest final one is 32 slots older" in page
    assert "25 h 0 min" in page
    assert "Every block since the beginning was read, of 32 tokens." in page
    assert "The operator issues credits." in page


async def test_gaps_and_old_data(tmp_path: Path) -> None:
    gaps = [Gap(Slot(349_999_000), Slot(349_999_009), "the node no longer has it")]
    market = MARKET._replace(gap_count=3, gap_slots=112, gaps=gaps, age_ms=61_000)
    checks = WELL | {"data": "the newest block is 61 s old"}
    page = await shown(tmp_path, checks=checks, market=market)
    assert "Some parts do not work as they should" in page
    assert "The data is fresh: the newest block is 61 s old" in page
    assert "112 slots in 3 gaps since the beginning" in page
    assert "349,999,000 to 349,999,009 the node no longer has it" in page


async def test_sales_that_are_closed_and_books_that_contradict_themselves(tmp_path: Path) -> None:
    why = "closed: stopped by an audit: credits go on working"
    books = BooksStatus("I2: a balance is not the sum of its entries: account 7", UnixMs(NOW))
    checks = WELL | {"sales": why}
    page = await shown(tmp_path, checks=checks, books=books, is_selling=True)
    assert "Sales Closed closed: stopped by an audit" in page
    assert "contradict themselves" in page
    assert "account 7" in page
    assert "A balance is not the sum of its entries" in page


async def test_a_market_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    page = await shown(tmp_path, market=None, books=None, is_selling=True)
    assert page.count("It cannot be read just now.") == 2
    assert "cannot be read just now" in page


async def test_it_is_that_of_the_market_that_runs(tmp_path: Path) -> None:
    async with website(tmp_path, has_market=True) as site, Person(site) as person:
        assert site.market is not None
        page = words(await person.open("/status"))
        assert f"Slot {site.market.slot:,}" in page
        assert "Every block since the beginning was read, of 32 tokens." in page
