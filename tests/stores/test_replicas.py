"""Several api processes at one PostgreSQL: they agree on what is sold, and on the time."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mintscope.app.config.groups import Config
from mintscope.app.stores.stores import common_settings
from mintscope.credits.store.postgres import PostgresCreditBook
from mintscope.kit.clock import SystemClock
from mintscope.kit.errors import UnusableStore
from mintscope.kit.sql.database import DatabaseAway
from mintscope.kit.sql.processes import MarketNotices
from mintscope.kit.time import SECOND_MS
from support.scenes.postgres import dsn_in
from support.scenes.stores import PEPPER

SETTINGS = {"api.origin": "https://a.example", "payments.fee_payer_key": "sha256:1234"}


@pytest.fixture
def dsn(tmp_path: Path) -> str:
    return dsn_in(tmp_path)


async def test_a_replica_that_differs_is_refused_and_hears_in_what(dsn: str) -> None:
    first, same = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, SETTINGS)
    other = MarketNotices(
        dsn, {"api.origin": "https://b.example", "payments.fee_payer_key": "sha256:5678"}
    )
    await first.open()
    await same.open()
    with pytest.raises(UnusableStore) as refused:
        await other.open()
    assert str(refused.value) == (
        "expected the settings of the api processes that run: api.origin is https://a.example there"
        " and https://b.example here; payments.fee_payer_key differs"
    )
    for each in (first, same, other):
        await each.aclose()


async def test_once_all_have_ended_other_settings_may_begin(dsn: str) -> None:
    first, other = MarketNotices(dsn, SETTINGS), MarketNotices(dsn, {"api.origin": "None"})
    await first.open()
    await first.aclose()
    await other.open()
    await other.aclose()


def test_what_is_common_holds_no_secret() -> None:
    config = Config.model_validate({"payments": {"price_feed_url": "https://hidden@host/price"}})
    told = common_settings(config)
    assert "hidden" not in repr(told)
    assert told["payments.price_feed_url"].startswith("sha256:")
    assert {"payments.price_usd", "payments.pay_to", "api.origin"} <= told.keys()
    assert {"accounts.signup_limit_requests", "api.other_limit_window_s"} <= told.keys()


@pytest.fixture
def book(dsn: str) -> Iterator[PostgresCreditBook]:
    opened = PostgresCreditBook(dsn, pepper=PEPPER)
    yield opened
    opened.close()


@pytest.mark.parametrize("apart_s", [-3, 3])
def test_a_replica_whose_clock_is_off_is_not_ready(dsn: str, apart_s: int) -> None:
    clock = SystemClock()
    book = PostgresCreditBook(dsn, pepper=PEPPER, now_ms=lambda: clock.now() + apart_s * SECOND_MS)
    with pytest.raises(DatabaseAway, match="expected a clock within 2000 ms of the database's"):
        book.expect_writable()
    book.close()


def test_a_replica_whose_clock_is_right_is_ready(book: PostgresCreditBook) -> None:
    book.expect_writable()
