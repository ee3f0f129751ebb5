"""The status page: parts that work, parts that do not, and the reasons."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from mintscope.kit.primitives import Slot, UnixMs, UnixS
from mintscope.market.coverage import Coverage, ProgramHour, Tally
from mintscope.site.page import utc_text
from mintscope.site.status import BooksStatus, MarketStatus, ServiceStatus
from mintscope.solana.blocks import WSOL, Gap
from mintscope.solana.finality_meter import Behind
from mintscope.solana.pace import Pace
from support.scenes.people.web_person import Person, words
from support.scenes.service import bearer, credit_token
from support.scenes.website import MINUTE_MS, NOW, website

WELL = {"store": "ok", "data": "ok", "gaps": "ok", "chain": "ok", "sales": "ok"}
MARKET = MarketStatus(
    slot=Slot(350_000_040),
    folded_slot=Slot(350_000_008),
    age_ms=1_250,
    tracked_count=32,
    gap_count=0,
    gap_slots=0,
    gaps=[],
    pace=Pace(0.25, 170.0),
)


async def shown(  # noqa: PLR0913 - one for each part of the page
    folder: Path,
    *,
    checks: Mapping[str, str] = WELL,
    market: MarketStatus | None = MARKET,
    books: BooksStatus | None = None,
    is_selling: bool = False,
    coverage: Coverage | None = None,
) -> str:
    """Return the text of the status page for the given status."""

    async def read() -> ServiceStatus:
        started_at = UnixMs(NOW - 90_000_000)
        return ServiceStatus(
            checks, market, books, started_at, is_selling=is_selling, coverage=coverage
        )

    async with website(folder, status=read) as site, Person(site) as person:
        response = await person.open("/status")
        assert 'href="/status"' in (await person.open("/")).text
    assert response.status_code == 200
    return words(response)


async def test_the_page_of_a_working_service_shows_no_fault(tmp_path: Path) -> None:
    page = await shown(tmp_path)
    assert "Everything works" in page
    assert "1 s old Slot 350,000,040" in page
    assert "at 250 ms a slot in the last minutes. Latest finalized slot: 32 behind." in page
    assert "25 h 0 min" in page
    assert "No blocks missed since tracking began (" in page
    assert "The operator issues credits." in page


@pytest.mark.parametrize(
    ("finality", "said"),
    [
        (Behind(1, 0.43), "A block becomes final 430 ms after it is read, as on Alpenglow."),
        (
            Behind(32, 12.8),
            "A block becomes final 12,800 ms after it is read, as before Alpenglow.",
        ),
        (None, "The finality time is not measured yet."),
    ],
)
async def test_the_page_shows_the_time_until_a_block_is_final(
    tmp_path: Path, finality: Behind | None, said: str
) -> None:
    assert said in await shown(tmp_path, market=MARKET._replace(finality=finality))


@pytest.mark.parametrize(("slot_s", "behind"), [(0.1, 12), (0.2, 6), (0.4, 3), (0.8, 1)])
async def test_blocks_behind_are_counted_at_the_pace_of_the_chain(
    tmp_path: Path, slot_s: float, behind: int
) -> None:
    page = await shown(tmp_path, market=MARKET._replace(pace=Pace(slot_s, 170.0)))
    assert f"{behind} block" in page
    assert f"at {slot_s * 1000:.0f} ms a slot" in page


async def test_blocks_behind_are_unknown_until_the_pace_is_known(tmp_path: Path) -> None:
    assert "Behind the chain Not known." in await shown(tmp_path, market=MARKET._replace(pace=None))


def covered(*rows: tuple[str, Tally]) -> Coverage:
    since = UnixS(1_800_000_000)
    found = [ProgramHour(500_000, "a", outcome, tally) for outcome, tally in rows]
    return Coverage(since, UnixS(since + 60), found, 200, skipped_slots=7, missing_slots=2)


async def test_the_coverage_of_trades_is_shown_in_plain_words(tmp_path: Path) -> None:
    some = covered(("read", Tally(98, 98, 9_999)), ("no_movement", Tally(2, 1, 1)))
    page = await shown(tmp_path, coverage=some)
    assert (
        "Coverage of trades 99.99 % of the volume Since 15 Jan 2027, 08:00 UTC 98 % of the"
        " trades. 2 were not read, mostly because programs changed. They are missing from"
        " candles and volume. a 2 of 100 : 2 no movement Slots of that time: 2 missing, 7 without"
        " a block." in page
    )


async def test_the_coverage_is_shown_if_all_or_no_trades_were_read(tmp_path: Path) -> None:
    whole = await shown(tmp_path, coverage=covered(("read", Tally(9))))
    assert "100 % of the trades Since" in whole
    assert "All trades were read." in whole
    assert "No tokens were exchanged. Since" in await shown(tmp_path, coverage=covered())
    assert "Coverage of trades Not counted yet." in await shown(tmp_path)


async def test_a_coverage_that_is_too_low_is_a_fault(tmp_path: Path) -> None:
    checks = WELL | {"coverage": "expected 95 %; was 90 %"}
    page = await shown(tmp_path, checks=checks)
    assert "Too many token exchanges are not read: expected 95 %; was 90 %" in page


async def test_gaps_and_late_data_are_shown(tmp_path: Path) -> None:
    gaps = [Gap(Slot(349_999_000), Slot(349_999_009), "the node no longer has it")]
    market = MARKET._replace(gap_count=3, gap_slots=112, gaps=gaps, age_ms=61_000)
    checks = WELL | {"gaps": "slots 349999000 to 349999009 are missing"}
    page = await shown(tmp_path, checks=checks, market=market)
    assert "Some parts are degraded" in page
    assert "2 of 5 checks fail" in page
    assert "Blocks of the last day are missing: slots 349999000 to 349999009" in page
    assert "The data is late: no block read since" in page
    assert "112 slots in 3 gaps since tracking began" in page
    assert "349,999,000 to 349,999,009 the node no longer has it" in page


async def test_closed_sales_and_a_violation_of_the_books_are_shown(tmp_path: Path) -> None:
    why = "closed: stopped by an audit or an administrator: existing credits keep working"
    books = BooksStatus("I2: a balance is not the sum of its entries: account 7", UnixMs(NOW))
    checks = WELL | {"sales": why}
    page = await shown(tmp_path, checks=checks, books=books, is_selling=True)
    assert (
        "Sales Closed Stopped by an audit or an administrator. Existing credits keep working."
        in page
    )
    assert "Credits are not sold: stopped by an audit or an administrator" in page
    assert "do not match" in page
    assert "account 7" in page
    assert "Every balance is the sum of its entries" in page


async def test_the_page_is_shown_if_the_market_cannot_be_read(tmp_path: Path) -> None:
    page = await shown(tmp_path, market=None, books=None, is_selling=True)
    assert page.count("Not available right now.") == 2
    assert "cannot be read right now" in page


async def test_the_page_shows_the_slot_of_the_running_market(tmp_path: Path) -> None:
    async with website(tmp_path, has_market=True) as site, Person(site) as person:
        assert site.market is not None
        page = words(await person.open("/status"))
        assert f"Slot {site.market.slot:,}" in page
        assert "No blocks missed since tracking began (" in page


async def test_late_data_is_reported_with_its_meaning(tmp_path: Path) -> None:
    async with website(tmp_path, has_market=True) as site, Person(site) as person:
        newest = f"no block read since {utc_text(NOW)}"
        for age_s, begin, means in (
            (30, "Everything works all 2 checks pass", ""),
            (61, "The data is late 1 of 2 checks fail", "X-Data-Status: degraded , with their age"),
            (300, "The data is late 1 of 2 checks fail", "older than 5 min is not sold."),
            (303, "The data is late 1 of 2 checks fail", "503 DATA_STALE with Retry-After: 5 ,"),
        ):
            site.clock.advance(NOW + age_s * 1000 - site.clock.now())
            page = words(await person.open("/status"))
            assert begin in page
            assert means in page
            assert (newest in page) is bool(means)
            assert ("nothing is charged" in page) is (age_s == 303)
        await site.ledger.issue(credit_token(1), 5, "")
        answer = await person.client.get(f"/v1/token/{WSOL}", headers=bearer(credit_token(1)))
        assert answer.json()["error"]["code"] == "DATA_STALE"
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_the_data_is_late_if_the_newest_block_is_unknown(tmp_path: Path) -> None:
    page = await shown(tmp_path, market=MARKET._replace(age_ms=None, slot=None))
    assert "Everything works" not in page
    assert "The data is late: the newest block is unknown" in page


async def test_only_credits_are_sold_while_the_data_is_too_old(tmp_path: Path) -> None:
    page = await shown(tmp_path, market=MARKET._replace(age_ms=301_000), is_selling=True)
    assert "Sales Credits only Reports are sold again once the data is up to date." in page


async def test_the_status_is_read_again_after_the_clock_is_set_back(tmp_path: Path) -> None:
    slots = [350_000_001, 350_000_002, 350_000_003]

    async def read() -> ServiceStatus:
        market = MARKET._replace(slot=Slot(slots.pop(0)))
        return ServiceStatus(WELL, market, None, UnixMs(NOW), is_selling=False)

    async with website(tmp_path, status=read) as site, Person(site) as person:
        pages = [words(await person.open("/status"))]
        site.clock.step(-10 * MINUTE_MS)
        pages.append(words(await person.open("/status")))
        site.clock.advance(1_999)
        pages.append(words(await person.open("/status")))

    assert "Slot 350,000,001" in pages[0]
    assert "Slot 350,000,002" in pages[1]
    assert "Slot 350,000,002" in pages[2]
