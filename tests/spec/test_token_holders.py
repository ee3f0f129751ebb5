"""GET /v1/token/{tokenAddress}/holders"""

from pathlib import Path

from series_service import BEGIN_S, TOKEN, UNTRACKED, series_service

from support.fakes.holders import FakeHolders


async def test_holders_with_every_field_and_refusals_that_are_free(tmp_path: Path) -> None:
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


async def test_who_cannot_pay_uses_up_no_calls_of_the_node(tmp_path: Path) -> None:
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
