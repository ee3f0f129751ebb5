"""GET /v1/token/{tokenAddress}/holders: holders are read only for a client that can pay."""

from pathlib import Path

import pytest
from series_service import BEGIN_S, TOKEN, UNTRACKED, series_service
from solders.keypair import Keypair

from mintscope.kit.limits import MemoryLimits
from mintscope.payments.trials import Trials
from support.fakes.holders import FakeHolders
from support.fakes.payment_memory import MemoryPaymentStore
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, decoded, opened
from support.scenes.service import refusal


async def test_holders_have_every_field_and_errors_are_free(tmp_path: Path) -> None:
    holders = FakeHolders()
    async with series_service(tmp_path, holders=holders) as market:
        await market.traded.slot(1, BEGIN_S)
        token = await market.service.issue(2)

        response = await market.ask("holders", credit_token=token)

        assert response.status_code == 200, response.text
        burned, pool, other = response.json()["data"].pop("holders")
        assert burned == {
            "account": "account-one", "owner": "1nc1nerator11111111111111111111111111111111",
            "amount": {"raw": "500", "decimal": "5"}, "share": 0.5, "kind": "burned",
            "name": "incinerator",
        }  # fmt: skip
        assert (pool["kind"], pool["name"], other["kind"], other["name"]) == (
            "pool", "pumpswap", "other", None,
        )  # fmt: skip
        data = response.json()["data"]
        del data["holders"]
        assert data == {
            "token": TOKEN, "supply": {"raw": "1000", "decimal": "10"},
            "burned": {"raw": "500", "decimal": "5"},
            "supplyWithoutBurned": {"raw": "500", "decimal": "5"},
            "top20Share": 0.2, "slot": 7, "readAt": 1_763_460_000,
        }  # fmt: skip
        market.service.clock.advance(2_000)  # a page is kept for a second
        holders.failure = "The node does not name the largest accounts."
        refused = await market.ask("holders", credit_token=token)
        assert refused.status_code == 503
        assert holders.failure in refused.json()["error"]["message"]
        unknown = await market.ask("holders", credit_token=token, mint=UNTRACKED)
        assert unknown.status_code == 404
        assert await market.service.left(token) == 1


async def test_holders_are_not_read_for_a_client_that_cannot_pay(tmp_path: Path) -> None:
    holders = FakeHolders()
    async with series_service(tmp_path, holders=holders) as market:
        await market.traded.slot(1, BEGIN_S)
        token = await market.service.issue(1)
        assert (await market.ask("holders")).status_code == 402
        assert (await market.ask("holders", mint=UNTRACKED)).status_code == 402
        assert holders.reading_count == 0

        assert (await market.ask("holders", credit_token=token)).status_code == 200
        market.service.clock.advance(2_000)
        assert (await market.ask("holders", credit_token=token)).status_code == 402
        assert holders.reading_count == 1


HOLDERS = f"/v1/token/{TRACKED}/holders"


@pytest.mark.parametrize("wallet", ["unfunded", "unknown"])
async def test_holders_are_not_read_for_a_payment_without_funds(world: World, wallet: str) -> None:
    """Wallets are free, and the signature of one on a quote does not prove that it has money."""
    holders = FakeHolders()
    payer = world.fund("unfunded", atoms=0) if wallet == "unfunded" else Keypair()
    trials = Trials(MemoryLimits(world.clock), 2, buyers=MemoryPaymentStore())
    async with opened(world, holders=holders, trials=trials) as shop:
        payments = [await shop.paid("GET", HOLDERS, payer=payer) for _ in range(3)]
        answers = [await shop.send("GET", HOLDERS, payment) for payment in payments]
        assert [refusal(answer) for answer in answers] == [
            (402, "PAYMENT_FAILED"), (402, "PAYMENT_FAILED"), (503, "PAYMENT_UNAVAILABLE"),
        ]  # fmt: skip
        assert decoded(answers[0], "payment-response")["errorReason"] == "insufficient_funds"
        assert holders.reading_count == 0


async def test_a_payment_with_funds_buys_holders(world: World) -> None:
    holders = FakeHolders()
    async with opened(world, holders=holders) as shop:
        payment = await shop.paid("GET", HOLDERS)
        answers = [await shop.send("GET", HOLDERS, payment, key=KEY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert holders.reading_count == 1
    assert world.calls.count("sendTransaction") == 1
