"""A data_dir with the migrations of 24 November 2026, the oldest accepted, is served and balances.

data/old_*.sql are its files as SQL: a market of some blocks of the devchain, a token issued and
spent, a paid report and a purchase, an administrator, an agent with an API key, an application that
is approved and one that waits. data/old_facts.json has its credentials and an answer of that time.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import cast

import apsw
import httpx
import pytest

from mintscope.app.config.groups import Config
from mintscope.app.doctor.finding import Level
from mintscope.app.doctor.machine import check_pepper
from mintscope.app.doctor.store import check_market, check_money
from mintscope.app.stores.folder import MONEY_FILE, PEPPER_FILE
from mintscope.app.stores.sqlite import SqliteEngine
from mintscope.credits.invariants import Invariant, Violation
from mintscope.kit.clock import SystemClock
from mintscope.kit.primitives import Mint, Signature
from mintscope.payments.audit import Arrivals, Auditor, ScanScope
from mintscope.payments.payment import Landed, Payment, Sighting
from mintscope.payments.ports import Settlement
from mintscope.payments.reconciler import Reconciler
from support.processes.api_process import api_process, settings
from support.scenes.old_folder import DATA, FACTS, old_folder
from support.scenes.payments.audited import violations_of
from support.scenes.service import bearer

PAYMENTS = 2
START_S = 60.0


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return old_folder(tmp_path)


async def _migrate(folder: Path) -> None:
    """Open the market as an ingest does when it starts, which migrates the market."""
    async with SqliteEngine(folder).open_market() as market:
        await market.store.start(mints=[], follows_files=False)


@pytest.fixture
def service(data_dir: Path) -> Iterator[httpx.Client]:
    """Yield a client of a current api process that serves *data_dir*."""
    asyncio.run(_migrate(data_dir))
    environment = settings(
        data_dir,
        MINTSCOPE_DATA_DIR=str(data_dir),
        MINTSCOPE_API__STALE_AFTER_S="86400",
        MINTSCOPE_API__RATE_LIMIT_REQUESTS="10000",
        MINTSCOPE_MAIL__DELIVERY="none",
    )
    with (
        api_process(environment, data_dir / "log") as url,
        httpx.Client(base_url=url, timeout=20) as client,
    ):
        yield client


def _report(service: httpx.Client) -> httpx.Response:
    """Request a report until the market is loaded; until then a response costs nothing."""
    path = f"/v1/token/{FACTS['report']['data']['token']}"
    until_s = time.monotonic() + START_S
    while True:
        answer = service.get(path, headers=bearer(FACTS["token"]))
        if answer.status_code != 503 or time.monotonic() > until_s:
            return answer


@pytest.mark.process
def test_the_old_folder_is_served(service: httpx.Client) -> None:
    answer = _report(service)
    me = service.get("/v1/me", headers=bearer(FACTS["key"]["apiKey"]))
    exchanged = service.post(
        "/api/auth/exchange-secret",
        json={"email": "approved@example.org", "applicationSecret": FACTS["approved_secret"]},
    )
    signed_in = service.post(
        "/sign-in",
        data={"email": FACTS["admin"], "password": FACTS["password"]},
        headers={"Origin": str(service.base_url).rstrip("/")},
    )

    assert answer.status_code == 200, answer.text
    # `coverage` came later.
    assert answer.json()["data"].keys() - {"coverage"} == FACTS["report"]["data"].keys()
    assert int(answer.headers["X-Credits-Remaining"]) == FACTS["left"] - 1
    assert me.json()["data"]["scopes"] == FACTS["key"]["scopes"], me.text
    assert exchanged.json()["apiKey"].startswith("svc_live_"), exchanged.text
    assert signed_in.status_code == 303, signed_in.text


@pytest.mark.parametrize("spent", [0, 3])
async def test_the_books_of_the_old_folder_balance(data_dir: Path, spent: int) -> None:
    async with SqliteEngine(data_dir).open_money(
        pepper=None, pepper_file=data_dir / PEPPER_FILE, clock=SystemClock()
    ) as money:
        account = await money.ledger.find(FACTS["token"])
        assert account is not None
        for _ in range(spent):
            await money.ledger.spend(account)
        violations = await violations_of(money.books)

        assert await money.ledger.balance(account) == FACTS["left"] - spent
    assert list(violations) == []


class ChainOfThen:
    """The chain of 24 November 2026: all payments in the folder have landed and are final."""

    def __init__(self, paid: Sequence[Payment]) -> None:
        self.paid = {each.signature: each.amount for each in paid}

    async def look(self, signatures: Sequence[Signature]) -> Sequence[Sighting]:
        return [Landed(paid=self.paid[each], final=True) for each in signatures]

    async def arrivals(
        self, asset: Mint | None = None, *, after: Signature | None, before: Signature | None
    ) -> Arrivals:
        assert asset is None
        if before is not None or after is not None:
            return Arrivals(succeeded=[], newest=None, oldest=None)
        oldest, *_, newest = self.paid
        return Arrivals(succeeded=[*self.paid], newest=newest, oldest=oldest)

    async def sponsored(self, signatures: Sequence[Signature]) -> Mapping[Signature, bool | None]:
        return dict.fromkeys(signatures, True)

    async def recorded(self, _signature: Signature) -> bytes | None:
        return None

    async def recognise(self, _wire: bytes) -> None:
        return None

    async def finalized_height(self) -> int:
        return 10**9


async def _audited(data_dir: Path) -> Sequence[Violation]:
    """Audit the folder until the whole history of the treasury is compared; return the findings."""
    clock = SystemClock()
    async with SqliteEngine(data_dir).open_money(
        pepper=None, pepper_file=data_dir / PEPPER_FILE, clock=clock
    ) as money:
        rows = apsw.Connection(str(data_dir / MONEY_FILE)).execute("SELECT signature FROM payment")
        paid = await money.payments.find_signatures([Signature(str(one)) for (one,) in rows])
        assert len(paid) == PAYMENTS
        chain = ChainOfThen(paid)
        auditor = Auditor(
            books=money.books,
            recognise=chain.recognise,
            treasury=money.books,
            history=chain,
            reconciler=Reconciler(
                store=money.payments,
                chain=cast(Settlement, chain),
                clock=clock,
                slot_s=lambda: 0.4,
                on_unreadable=lambda payment, why: pytest.fail(f"{payment.signature}: {why}"),
            ),
            clock=clock,
        )
        found = [*await auditor.audit(full=True), *await auditor.audit()]
        scan = await money.books.scan(ScanScope.ALL)
        assert scan is not None
        assert scan.finished_at is not None
    return found


async def test_a_full_audit_finds_no_violation(data_dir: Path) -> None:
    assert await _audited(data_dir) == []


async def test_a_full_audit_finds_credits_that_were_never_paid(data_dir: Path) -> None:
    with closing(apsw.Connection(str(data_dir / MONEY_FILE))) as db:
        db.execute("UPDATE credit_account SET balance = balance + 1 WHERE id = 1")

    assert [one.invariant for one in await _audited(data_dir)][:1] == [Invariant.BALANCE_IS_SUM]


def test_the_doctor_reports_no_problem_of_pepper_market_and_money(data_dir: Path) -> None:
    asyncio.run(_migrate(data_dir))
    config = Config(data_dir=data_dir)
    found = [*check_pepper(config), *check_market(config), *check_money(config)]

    assert [one.what for one in found if one.level is not Level.OK] == []
    assert "money: every account equals the sum of its entries" in {one.what for one in found}


def test_the_stored_data_contains_no_path_of_a_machine() -> None:
    texts = {path.name: path.read_text() for path in DATA.glob("old_*")}

    assert texts.keys() == {"old_facts.json", "old_market.sql", "old_money.sql"}
    assert [name for name, text in texts.items() if "/work" in text or "/home" in text] == []
