"""An interface without HTTP sells reports through the checkout alone."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from mintscope.credits.ledger import CreditLedger, DebitLedger
from mintscope.kit.clock import ManualClock
from mintscope.kit.errors import ServiceUnavailable, TokenNotFound
from mintscope.kit.primitives import Slot
from mintscope.market.report import ReadReport
from mintscope.payments.checkout import (
    Checkout,
    CheckoutRefused,
    Delivered,
    NoCredits,
    NothingForSale,
    Payer,
)
from mintscope.payments.merchant import report_order
from mintscope.payments.ports import Outcome
from mintscope.payments.protocol.envelope import Resource
from mintscope.payments.protocol.headers import Presented
from support.scenes.service import NOW, credit_token
from support.scenes.stores import money_in

REPORT = ReadReport(b"{}", Slot(1), 0)
ORDER = report_order(Resource("token/1"))
TOKEN = credit_token(1)


class Front:
    """A checkout for one MCP tool that costs a credit of TOKEN."""

    def __init__(self, ledger: CreditLedger) -> None:
        self.ledger = ledger
        self.outcomes: list[Outcome] = []
        self.checkout = Checkout(
            ledger=self.ledger,
            debits=self.ledger if isinstance(self.ledger, DebitLedger) else None,
            merchant=None,
            next_iteration=lambda: asyncio.sleep(0),
            next_outcome=lambda: asyncio.sleep(0),
            on_outcome=self.outcomes.append,
        )

    async def call(
        self, failure: Exception | None = None, credit_count: int = 1
    ) -> tuple[ReadReport, int | None]:
        account = await self.ledger.find(TOKEN)
        assert account is not None

        async def work() -> Delivered:
            if failure is not None:
                raise failure
            return Delivered(REPORT, credit_count)

        charge = self.checkout.authorize_credit(ORDER, Payer(account))
        receipt = await charge.settle(work)
        return receipt.report, receipt.balance

    async def balance(self) -> int:
        account = await self.ledger.find(TOKEN)
        assert account is not None
        return await self.ledger.balance(account)


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with money_in(tmp_path, clock=ManualClock(NOW)) as money:
        yield Front(money.ledger)


async def causes(front: Front, failures: Sequence[Exception | None]) -> list[CheckoutRefused]:
    found = []
    for failure in failures:
        with pytest.raises(CheckoutRefused) as caught:
            await front.call(failure)
        found.append(caught.value)
    return found


async def test_a_credit_buys_a_report_and_a_failure_costs_nothing(front: Front) -> None:
    await front.ledger.issue(TOKEN, 2, "")
    with pytest.raises(TokenNotFound):
        await front.call(TokenNotFound("This service does not track it."))
    assert await front.balance() == 2

    assert await front.call() == (REPORT, 1)
    assert await front.call() == (REPORT, 0)


async def test_the_lack_of_credits_is_reported_before_a_failure(front: Front) -> None:
    await front.ledger.issue(TOKEN, 1, "")
    await front.call()
    failure = TokenNotFound("This service does not track it.")
    empty, pointless = await causes(front, [None, failure])

    assert isinstance(empty.cause, NoCredits)
    assert (empty.failure, empty.option) == (None, None)
    assert isinstance(pointless.cause, NoCredits)
    assert pointless.failure is failure


async def test_a_delivery_takes_all_of_its_credits_or_none(front: Front) -> None:
    await front.ledger.issue(TOKEN, 10, "")
    assert await front.call(credit_count=7) == (REPORT, 3)
    assert await front.call(credit_count=0) == (REPORT, None)
    with pytest.raises(CheckoutRefused) as caught:
        await front.call(credit_count=4)
    assert caught.value.cause == NoCredits(balance=3, credit_count=4)
    assert await front.balance() == 3


async def test_a_payment_is_refused_without_a_merchant(front: Front) -> None:
    presented = Presented.__new__(Presented)
    with pytest.raises(CheckoutRefused) as caught:
        await front.checkout.authorize_payment(ORDER, presented, key=None, address="192.0.2.1")

    assert isinstance(caught.value.cause, NothingForSale)
    assert front.outcomes == []


async def test_an_expected_cost_above_the_balance_is_refused(front: Front) -> None:
    account = await front.ledger.issue(TOKEN, 3, "")
    charge = front.checkout.authorize_credit(ORDER, Payer(account), once="a name")
    await charge.expect(3)
    with pytest.raises(CheckoutRefused) as caught:
        await charge.expect(4)

    assert caught.value.cause == NoCredits(3, 4)
    assert await front.balance() == 3


async def test_a_failure_to_repeat_a_bought_answer_is_reported_as_it_is(front: Front) -> None:
    """The request for it does not count as answered, so the credit can still be given back."""
    account = await front.ledger.issue(TOKEN, 1, "")
    charge = front.checkout.authorize_credit(ORDER, Payer(account), once="a name")

    async def work() -> Delivered:
        return Delivered(REPORT)

    async def fail() -> Delivered:
        raise ServiceUnavailable("no report can be read")

    bought = await charge.settle(work)
    with pytest.raises(ServiceUnavailable, match="no report can be read"):
        await charge.settle(fail)
    other = front.checkout.authorize_credit(ORDER, Payer(account), once="another")
    with pytest.raises(CheckoutRefused):
        await other.settle(fail)

    assert bought.taken is not None
    front.checkout.expect_debits().owe(bought.taken)
    await asyncio.sleep(0)
    await front.ledger.spend(account)
    assert (await front.ledger.statement(account)).entries[0].kind == "reversal"


async def test_a_bought_answer_is_delivered_again_at_a_balance_of_zero(front: Front) -> None:
    account = await front.ledger.issue(TOKEN, 3, "")
    charge = front.checkout.authorize_credit(ORDER, Payer(account), once="a name")

    async def work() -> Delivered:
        await charge.expect(3)
        return Delivered(REPORT, 3)

    first = await charge.settle(work)
    again = await charge.settle(work)
    assert (first.balance, again.balance) == (0, 0)
    assert (first.is_bought, again.is_bought) == (True, False)
    with pytest.raises(CheckoutRefused):
        await front.checkout.authorize_credit(ORDER, Payer(account), once="another").expect(1)
