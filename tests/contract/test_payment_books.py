"""The contract of every store of the payment books.  To test an engine, add it to `ENGINES`."""

import asyncio
import threading
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from mintscope.app.stores import postgres as openers
from mintscope.app.stores.sqlite import payment_books, payment_store
from mintscope.kit.audit import COMMAND_LINE
from mintscope.kit.errors import ServiceUnavailable
from mintscope.kit.primitives import Mint, Signature, UnixMs, Wallet
from mintscope.kit.sql.sqlite import SqliteDatabase
from mintscope.kit.time import DAY_MS, HOUR_MS, MINUTE_MS
from mintscope.payments.audit import Acknowledgement, DoubtKind, Orphan, Scan, ScanScope
from mintscope.payments.payment import Evidence, State, Takings
from mintscope.payments.ports import SALES_CLOSED, Begun, Budget, FeesAtRisk, PaymentStore
from mintscope.payments.protocol.envelope import Resource
from mintscope.payments.store import books as books_module
from mintscope.payments.store.books import SqlPaymentBooks
from support.scenes.payments.audited import violations_of
from support.scenes.payments.pending_payments import (
    AGAIN_MS,
    LANDED,
    LANDED_FOR_GOOD,
    NOW,
    REVERTED,
    new_payment,
)
from support.scenes.postgres import dsn_in

SOME = Signature("signature of a")


Books = SqlPaymentBooks


def sqlite(folder: Path) -> tuple[Books, PaymentStore, list[Any]]:
    path = folder / "money.sqlite"
    books, payments = payment_books(path), payment_store(path)
    return books, payments, [books, payments]


def postgres(folder: Path) -> tuple[Books, PaymentStore, list[Any]]:
    dsn = dsn_in(folder)
    books, payments = openers.payment_books(dsn), openers.payment_store(dsn)
    return books, payments, [books, payments]


class Closing(SqliteDatabase):
    """A database that records when it is closed."""

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path, kind)
        self.events: list[str] = []
        self.is_closed = asyncio.Event()

    @override
    def close(self) -> None:
        super().close()
        self.events.append("closed")
        self.is_closed.set()


ENGINES = {"sqlite": sqlite, "postgresql": postgres}


@pytest.fixture(params=ENGINES)
async def opened(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[Books, PaymentStore]]:
    books, payments, closing = ENGINES[request.param](tmp_path)
    yield books, payments
    for each in closing:
        await each.close()


@pytest.fixture
def books(opened: tuple[Books, PaymentStore]) -> Books:
    return opened[0]


@pytest.fixture
def payments(opened: tuple[Books, PaymentStore]) -> PaymentStore:
    return opened[1]


async def test_sales_stop_for_the_first_reason_until_they_are_resumed(
    books: Books, payments: PaymentStore
) -> None:
    assert await books.why_stopped() is None
    await books.stop_sales(now=NOW, why="the first")
    await books.stop_sales(now=NOW, why="the second")

    assert await books.why_stopped() == "the first"
    assert await payments.begin(new_payment("a")) == SALES_CLOSED
    await books.resume_sales()
    assert await books.why_stopped() is None


async def test_the_database_is_closed_only_after_a_job_that_outlasts_the_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books_module, "AUDIT_S", 0.05)  # the job below outlasts this time limit
    database = Closing(tmp_path / "money.sqlite", "money")
    go_on = threading.Event()

    def is_auditor() -> bool:
        assert go_on.wait(10)
        database.events.append(str(database.execute("SELECT 'read'").get))
        return True

    books = Books(database, is_auditor=is_auditor)
    with pytest.raises(ServiceUnavailable):
        await books.is_auditor()
    await books.close()
    go_on.set()
    await asyncio.wait_for(database.is_closed.wait(), 10)
    assert database.events == ["read", "closed"]


async def test_each_scope_has_a_scan_of_its_own(books: Books) -> None:
    assert await books.scan(ScanScope.NEW) is None
    scan = Scan(mark=None, head=Signature("h"), cursor=Signature("c"), finished_at=NOW)
    await books.keep_scan(ScanScope.NEW, scan)
    await books.keep_scan(ScanScope.ALL, Scan())
    await books.keep_scan(ScanScope.NEW, scan.end(NOW, scope=ScanScope.NEW))

    assert await books.scan(ScanScope.NEW) == Scan(mark=Signature("h"), finished_at=NOW)
    assert await books.scan(ScanScope.ALL) == Scan()


async def test_the_fund_is_the_part_that_is_not_reserved(
    books: Books, payments: PaymentStore
) -> None:
    assert await books.fund() is None
    await books.fill_fund(10**9, mark=await books.fund_mark())
    assert await books.fund() == 10**9
    fee = new_payment("a").payment.fee_lamports
    await payments.begin(new_payment("a"))
    assert await books.fund() == 10**9 - fee

    before = await books.fund_mark()
    await payments.resolve(
        new_payment("a").payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS
    )
    assert await books.fund_mark() > before
    # The balance may have been read before the fee was taken.
    await books.fill_fund(10**9, mark=before)
    assert await books.fund() == 10**9 - fee


async def test_pending_payments_are_counted_with_the_age_of_the_oldest(
    books: Books, payments: PaymentStore
) -> None:
    assert await books.pending() == (0, None)
    await payments.begin(new_payment("a", begun_at=UnixMs(NOW + 5)))
    await payments.begin(new_payment("b"))
    assert await books.pending() == (2, NOW)

    await payments.resolve(
        new_payment("b").payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS
    )
    assert await books.pending() == (1, NOW + 5)


async def test_fees_at_risk_are_the_fees_of_the_hour_and_of_pending_payments(
    books: Books, payments: PaymentStore
) -> None:
    """Fees of payers that bought within a day are counted apart from fees of other payers."""
    fee = new_payment("a").payment.fee_lamports
    assert await books.fees_at_risk(now=NOW) == FeesAtRisk(0, 0, 0, 0, None)
    await books.fill_fund(10**9, mark=10**9)
    became: dict[str, Evidence] = {"bad": REVERTED, "good": LANDED_FOR_GOOD}
    for name, evidence in became.items():
        await payments.begin(new_payment(name, payer=name))
        await payments.resolve(
            new_payment(name).payment.message_hash, evidence, now=NOW, again_ms=AGAIN_MS
        )
    for name, payer in {"a": "good", "b": "carol"}.items():
        await payments.begin(new_payment(name, payer=payer))

    at_risk = await books.fees_at_risk(now=NOW)
    after_an_hour = await books.fees_at_risk(now=UnixMs(NOW + HOUR_MS))

    assert (at_risk.reverted, at_risk.uncovered) == (fee, fee)
    assert (at_risk.pending, at_risk.new_payers) == (2 * fee, fee)
    assert at_risk.fund == await books.fund()
    assert (after_an_hour.reverted, after_an_hour.uncovered) == (0, 0)
    assert after_an_hour.pending == 2 * fee


async def test_a_payment_issued_and_not_final_in_time_is_unsettled(
    books: Books, payments: PaymentStore
) -> None:
    payment = new_payment("a").payment
    await payments.begin(new_payment("a"))
    await payments.resolve(payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS)
    height = payment.last_valid_height

    async def unsettled(before: int, height: int, count_max: int = 9) -> list[Signature]:
        found = await books.unsettled(before=UnixMs(before), height=height, count_max=count_max)
        return list(found)

    assert await unsettled(NOW + 1, height + 1) == [payment.signature]
    assert await unsettled(NOW, height + 1) == []
    assert await unsettled(NOW + 1, height) == []
    assert await unsettled(NOW + 1, height + 1, 0) == []
    await payments.resolve(payment.message_hash, LANDED_FOR_GOOD, now=NOW, again_ms=AGAIN_MS)
    assert await unsettled(NOW + 1, height + 1) == []


async def test_a_doubt_is_due_after_growing_delays_until_it_is_settled(
    books: Books, payments: PaymentStore
) -> None:
    async def due(at: int) -> list[Signature]:
        return list(await books.doubts(now=UnixMs(at), count_max=9))

    await payments.begin(new_payment("a"))
    await books.doubt(DoubtKind.ARRIVED, [SOME, Signature("other")], now=NOW)
    assert await due(NOW + MINUTE_MS - 1) == []
    assert sorted(await due(NOW + MINUTE_MS)) == sorted([SOME, "other"])
    await books.dismiss([Signature("other")])
    assert await due(NOW + MINUTE_MS) == [SOME]

    later = NOW + 10 * MINUTE_MS
    await books.doubt(DoubtKind.ARRIVED, [SOME], now=UnixMs(later))
    assert await due(later + 10 * MINUTE_MS - 1) == []
    assert await due(later + 10 * MINUTE_MS) == [SOME]
    await payments.resolve(
        new_payment("a").payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS
    )
    await books.dismiss([])
    assert await due(later + HOUR_MS) == []


async def test_a_check_of_sound_books_finds_nothing_and_returns_its_entry_mark(
    books: Books, payments: PaymentStore
) -> None:
    assert (await books.check(after_entry=None)).entry_mark == 0
    await payments.begin(new_payment("a"))
    await payments.resolve(
        new_payment("a").payment.message_hash, LANDED, now=NOW, again_ms=AGAIN_MS
    )

    checked = await books.check(after_entry=0)
    assert (list(checked.violations), checked.entry_mark) == ([], 1)
    assert await violations_of(books) == []


async def test_a_doubt_that_is_recorded_three_times_is_a_violation(
    books: Books, payments: PaymentStore
) -> None:
    await payments.begin(new_payment("a"))
    for minutes in (0, 3, 5):
        assert (await books.check(after_entry=None)).violations == []
        at = UnixMs(NOW + minutes * MINUTE_MS)
        await books.doubt(DoubtKind.ARRIVED, [SOME], now=at)

    (found,) = (await books.check(after_entry=None)).violations
    assert found.subject == SOME


def orphan(name: str, *, bought: str | None = "/a-report", minutes: int = 0) -> Orphan:
    return Orphan(
        signature=Signature(f"signature of {name}"),
        payer=None if bought is None else Wallet("alice"),
        amount=None if bought is None else 1_000,
        asset=None if bought is None else Mint("scope"),
        bought=None if bought is None else Resource(bought),
        found_at=UnixMs(NOW + minutes * MINUTE_MS),
    )


async def test_orphans_are_stored_as_first_found_and_listed_oldest_first(books: Books) -> None:
    later, first = orphan("b", minutes=1), orphan("a", bought=None)
    assert await books.note_orphans([later, first]) == []
    assert await books.note_orphans([orphan("b", minutes=9)]) == []

    assert list(await books.orphans()) == [first, later]


async def test_an_orphan_is_acknowledged_once_and_no_longer_listed(books: Books) -> None:
    async def acknowledge() -> Acknowledgement:
        return await books.acknowledge(SOME, note="refunded", by=COMMAND_LINE, now=NOW)

    assert await acknowledge() is Acknowledgement.UNKNOWN
    await books.note_orphans([orphan("a"), orphan("b")])
    assert await acknowledge() is Acknowledgement.DONE
    assert await acknowledge() is Acknowledgement.DONE_BEFORE
    assert list(await books.orphans()) == [orphan("b")]
    assert await books.note_orphans([orphan("a"), orphan("b")]) == [SOME]


async def test_a_payment_that_has_a_row_is_no_longer_an_orphan(
    books: Books, payments: PaymentStore
) -> None:
    await books.note_orphans([orphan("a")])
    await payments.begin(new_payment("a"))

    assert list(await books.orphans()) == []
    found = await books.acknowledge(SOME, note="refunded", by=COMMAND_LINE, now=NOW)
    assert found is Acknowledgement.HAS_ROW


async def test_payments_are_listed_by_state_and_takings_by_day(
    books: Books, payments: PaymentStore
) -> None:
    """There are four payments of one day, one failed and one pending, and one of the day before."""
    many = Budget(in_flight_new_payer=99, in_flight_payer=99, in_flight_address=99)
    day = NOW // DAY_MS
    for name, at, asset, worth in (
        ("a", NOW, "scope", 24_998),
        ("b", NOW + 1, "scope", None),
        ("c", NOW + 2, "scope", 25_000),
        ("d", NOW - DAY_MS, "other", 25_001),
        ("e", NOW + 3, "scope", 25_000),
    ):
        new = new_payment(name, budget=many, worth=worth, begun_at=UnixMs(at), asset=Mint(asset))
        assert isinstance(await payments.begin(new), Begun)
    for name, evidence in (("a", LANDED), ("b", LANDED), ("c", REVERTED), ("d", LANDED)):
        message_hash = new_payment(name).payment.message_hash
        await payments.resolve(message_hash, evidence, now=NOW, again_ms=AGAIN_MS)

    def names(found: Any) -> list[str]:
        return [each.signature[-1] for each in found]

    first = await books.newest(None, None, 2)
    rest = await books.newest(None, (first[-1].begun_at, first[-1].signature), 9)

    assert (names(first), names(rest)) == (["e", "c"], ["b", "a", "d"])
    assert names(await books.newest(State.FAILED, None, 9)) == ["c"]
    assert names(await books.newest(State.PENDING, None, 9)) == ["e"]
    assert names(await books.newest(State.ISSUED, None, 9)) == ["b", "a", "d"]
    taken = await books.takings(UnixMs(NOW - 2 * DAY_MS))
    assert taken == [
        Takings(day, Mint("scope"), 10, 2, 2_000, 1, 24_998),
        Takings(day - 1, Mint("other"), 10, 1, 1_000, 1, 25_001),
    ]
    # The worth of "b" is not known: its list price counts.
    assert [each.usd for each in taken] == [Decimal("0.049998"), Decimal("0.025001")]
    assert await books.takings(UnixMs(NOW + 1)) == [Takings(day, Mint("scope"), 10, 1, 1_000)]
