"""GET /v1/token/{tokenAddress}, paid per request."""

from copy import deepcopy
from decimal import Decimal

import pytest

from mintscope.kit.errors import ServiceUnavailable
from mintscope.payments.audit import Closure
from support.fakes.reports import TOO_YOUNG, TRACKED, UNTRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    ORIGIN,
    OTHER_KEY,
    SellingApi,
    decoded,
    demanded,
)
from support.scenes.service import Service, bearer, refusal

PATH = f"/v1/token/{TRACKED}"


async def test_an_unpaid_request_is_402_with_the_demand(shop: SellingApi) -> None:
    response = await shop.client.get(PATH)

    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert response.headers["cache-control"] == "no-store"
    assert response.headers["x-token-status"] == "ready"
    assert len(response.headers["payment-required"]) < 4_000  # the limit of proxies
    demand = demanded(response)
    assert demand["resource"]["url"] == f"{ORIGIN}{PATH}"
    assert demand["accepts"][0]["amount"] == "2500"
    assert demand["error"] == "Payment required"


async def test_a_paid_request_is_200_with_the_report(shop: SellingApi, world: World) -> None:
    response = await shop.send("GET", PATH, await shop.paid("GET", PATH))

    assert response.status_code == 200
    body = response.json()
    assert body["data"]["token"] == TRACKED
    assert body["meta"]["requestId"] == response.headers["x-request-id"]
    assert decoded(response, "payment-response")["success"] is True
    assert response.headers["cache-control"] == "private, no-store"
    assert response.headers["x-data-slot"] == "350000000"
    assert response.headers["x-data-status"] == "live"
    assert "x-credits-remaining" not in response.headers
    assert world.received() == 2_500
    assert world.fees() == 10_001


@pytest.mark.parametrize("kind", ["candles", "indicators"])
async def test_a_page_of_a_series_is_paid_per_request_and_sent_again_with_its_key(
    shop: SellingApi, world: World, kind: str
) -> None:
    path = f"{PATH}/{kind}?tf=m1&limit=3"
    demand = await shop.demand("GET", path)
    payment = shop.pay(demand)
    response = await shop.send("GET", path, payment, key=KEY)
    again = await shop.send("GET", path, payment, key=KEY)
    other = await shop.send("GET", f"{PATH}/{kind}?tf=m1&limit=2", payment, key=KEY)

    assert demand["resource"]["url"].startswith(f"{ORIGIN}{PATH}/{kind}?tf=m1")
    assert response.status_code == again.status_code == 200
    assert len(response.json()["data"]["candles" if kind == "candles" else "points"]) == 3
    assert again.json()["data"] == response.json()["data"]
    assert other.status_code in {402, 409}
    assert decoded(response, "payment-response")["success"] is True
    assert world.received() == 2_500


async def test_a_report_that_is_sent_again_has_the_age_of_its_data(
    shop: SellingApi, world: World
) -> None:
    payment = await shop.paid("GET", PATH)
    first = await shop.send("GET", PATH, payment, key=KEY)
    world.clock.advance(60_000)
    again = await shop.send("GET", PATH, payment, key=KEY)

    assert again.json()["data"] == first.json()["data"]
    assert again.headers["x-data-slot"] == first.headers["x-data-slot"]
    aged_ms = int(again.headers["x-data-age-ms"]) - int(first.headers["x-data-age-ms"])
    assert aged_ms == 60_000
    assert again.headers["x-data-status"] == "degraded"
    assert shop.service.reports.reads == 2  # for the 402, and for the first answer


@pytest.mark.parametrize(
    ("address", "status"), [(UNTRACKED, "not-tracked"), (TOO_YOUNG, "insufficient-data")]
)
async def test_a_402_for_a_token_without_a_report_says_that_paying_is_pointless(
    shop: SellingApi, address: str, status: str
) -> None:
    response = await shop.client.get(f"/v1/token/{address}")

    assert refusal(response) == (402, "PAYMENT_REQUIRED")
    assert response.headers["x-token-status"] == status
    message = response.json()["error"]["message"]
    assert ". Paying would be pointless now: " in message
    assert message.endswith(f"PAYMENT-REQUIRED. {demanded(response)['error']}")


@pytest.mark.parametrize(
    ("address", "expected"),
    [(UNTRACKED, (404, "TOKEN_NOT_FOUND")), (TOO_YOUNG, (404, "INSUFFICIENT_DATA"))],
)
async def test_404_is_never_charged(
    shop: SellingApi, world: World, address: str, expected: tuple[int, str]
) -> None:
    path = f"/v1/token/{address}"
    response = await shop.send("GET", path, await shop.paid("GET", path))

    assert refusal(response) == expected
    assert "payment-response" not in response.headers
    assert world.calls == []


async def test_old_data_is_never_charged(shop: SellingApi, world: World) -> None:
    payment = await shop.paid("GET", PATH)
    shop.service.reports.age_ms = 300_001

    assert refusal(await shop.send("GET", PATH, payment)) == (503, "DATA_STALE")
    assert world.calls == []


@pytest.mark.parametrize(
    ("bug", "expected"),
    [
        (ServiceUnavailable("the market is being loaded"), (503, "SERVICE_UNAVAILABLE")),
        (ZeroDivisionError("a bug"), (500, "INTERNAL_ERROR")),
    ],
)
async def test_a_failed_request_is_never_charged(
    shop: SellingApi, world: World, bug: Exception, expected: tuple[int, str]
) -> None:
    payment = await shop.paid("GET", PATH)
    shop.service.reports.bug = bug

    assert refusal(await shop.send("GET", PATH, payment)) == expected
    assert world.calls == []


async def test_the_address_is_checked_before_the_payment(shop: SellingApi, world: World) -> None:
    payment = await shop.paid("GET", PATH)

    assert refusal(await shop.send("GET", "/v1/token/abc", payment))[1] == "INVALID_TOKEN_ADDRESS"
    assert world.calls == []


async def test_an_unreadable_payment_for_an_untracked_token_is_400(shop: SellingApi) -> None:
    response = await shop.send("GET", f"/v1/token/{UNTRACKED}", "nonsense")

    assert refusal(response) == (400, "INVALID_PAYMENT")


async def test_a_refused_payment_for_an_untracked_token_is_402(shop: SellingApi) -> None:
    path = f"/v1/token/{UNTRACKED}"
    demand = await shop.demand("GET", path)
    response = await shop.send("GET", path, shop.pay(demand, amount=2_499))

    assert refusal(response) == (402, "PAYMENT_FAILED")


async def test_a_known_payment_is_answered_if_the_data_are_too_old(shop: SellingApi) -> None:
    payment = await shop.paid("GET", PATH)
    await shop.send("GET", PATH, payment, key=KEY)
    shop.service.reports.age_ms = 10**9

    assert (await shop.send("GET", PATH, payment, key=KEY)).status_code == 200
    assert refusal(await shop.send("GET", PATH, payment)) == (409, "PAYMENT_ALREADY_USED")


async def test_a_payment_takes_precedence_over_a_credit_token(
    shop: SellingApi, world: World
) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    response = await shop.send("GET", PATH, await shop.paid("GET", PATH), **bearer(token))

    assert response.status_code == 200
    assert "payment-response" in response.headers
    assert await shop.service.left(token) == 10
    broken = await shop.send("GET", PATH, "nonsense", **bearer(token))
    assert refusal(broken) == (400, "INVALID_PAYMENT")
    assert await shop.service.left(token) == 10
    assert world.received() == 27_500


async def test_a_wrong_credit_token_beside_a_payment_is_ignored(shop: SellingApi) -> None:
    payment = await shop.paid("GET", PATH)

    response = await shop.send("GET", PATH, payment, authorization="Bearer nonsense")
    assert response.status_code == 200


async def test_credits_and_earlier_quotes_are_accepted_without_a_price(shop: SellingApi) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    quoted = await shop.demand("GET", PATH)
    shop.price.usd = None
    shop.world.seconds(60)

    unpaid = await shop.client.get(PATH)
    assert refusal(unpaid) == (402, "PAYMENT_REQUIRED")
    assert "payment-required" not in unpaid.headers
    spent = await shop.client.get(PATH, headers=bearer(token))
    assert spent.status_code == 200
    made_up = deepcopy(quoted)
    made_up["accepts"][0]["extra"]["memo"] = "A" * 32
    forged = await shop.send("GET", PATH, shop.pay(made_up))
    assert refusal(forged) == (503, "PRICE_UNAVAILABLE")
    assert (await shop.send("GET", PATH, shop.pay(quoted), key=OTHER_KEY)).status_code == 200


async def test_a_402_has_no_quote_while_sales_are_closed_and_credits_work(
    shop: SellingApi,
) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    shop.closure = Closure(why="paused", is_for_all=True)

    unpaid = await shop.client.get(PATH)
    assert refusal(unpaid) == (402, "PAYMENT_REQUIRED")
    assert "payment-required" not in unpaid.headers
    assert unpaid.json()["error"]["message"].endswith(
        "Nothing is sold right now. Existing credits keep working."
    )
    assert unpaid.json()["error"]["details"]["accepts"] == []
    assert (await shop.client.get(PATH, headers=bearer(token))).status_code == 200
    bundle = await shop.client.post("/v1/credits/purchase?bundle=10")
    assert refusal(bundle) == (503, "PAYMENT_UNAVAILABLE")
    assert bundle.headers["retry-after"] == "10"
    assert "payment-required" not in bundle.headers

    shop.closure = Closure(why="to new payers", is_for_all=False)
    assert (await shop.demand("GET", PATH))["accepts"]
    shop.closure = None
    assert (await shop.demand("POST", "/v1/credits/purchase?bundle=10"))["accepts"]


async def test_the_price_of_a_request_is_rounded_up(shop: SellingApi) -> None:
    shop.price.usd = Decimal(3)

    demand = await shop.demand("GET", PATH)
    assert demand["accepts"][0]["amount"] == "834"


async def test_a_payment_is_503_and_an_unpaid_request_402_if_payments_are_off(
    service: Service,
) -> None:
    token = await service.issue(1)
    unpaid = await service.client.get(PATH)
    paid = await service.client.get(PATH, headers={"PAYMENT-SIGNATURE": "x"} | bearer(token))

    assert refusal(unpaid) == (402, "PAYMENT_REQUIRED")
    assert "payment-required" not in unpaid.headers
    assert refusal(paid) == (503, "PAYMENT_UNAVAILABLE")
    assert await service.left(token) == 1


async def test_pages_of_other_origins_may_use_the_payment_headers(shop: SellingApi) -> None:
    response = await shop.client.get(PATH, headers={"origin": "https://somewhere.example"})
    preflight = await shop.client.options(
        PATH,
        headers={
            "origin": "https://somewhere.example",
            "access-control-request-method": "GET",
            "access-control-request-headers": "payment-signature",
        },
    )

    exposed = {
        name.strip() for name in response.headers["access-control-expose-headers"].split(",")
    }
    assert {"PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Retry-After", "Idempotency-Key"} <= exposed
    assert "PAYMENT-SIGNATURE" in preflight.headers["access-control-allow-headers"]
    assert "Idempotency-Key" in preflight.headers["access-control-allow-headers"]
    assert "Access-Control-Expose-Headers" in preflight.headers["access-control-allow-headers"]
