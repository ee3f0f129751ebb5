"""GET /v1/demo/token and GET /v1/demo/402: a report and a demand that never change."""

from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any

import msgspec
from x402.schemas import PaymentRequired

from mintscope.market.report import TokenReport
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import (
    KEY,
    PURCHASE,
    SellingApi,
    demanded,
    signature_header,
)
from support.scenes.service import Service, bearer

TOKEN, DEMAND = "/v1/demo/token", "/v1/demo/402"


def header_of(value: str) -> dict[str, Any]:
    return dict(msgspec.json.decode(b64decode(value, validate=True)))


def payment(**accepted: Any) -> dict[str, str]:
    """Return the header of a well-formed x402 payment that meets the demand *accepted*."""
    body = {
        "x402Version": 2,
        "accepted": accepted,
        "payload": {"transaction": b64encode(b"a transaction").decode()},
    }
    return {"PAYMENT-SIGNATURE": b64encode(msgspec.json.encode(body)).decode()}


async def test_the_demo_report_has_every_value_and_never_changes(service: Service) -> None:
    response = await service.client.get(TOKEN)
    again = await service.client.get(TOKEN)
    data = response.json()["data"]

    assert response.status_code == 200
    assert again.json()["data"] == data
    report = msgspec.json.encode(data)
    assert msgspec.json.encode(msgspec.json.decode(report, type=TokenReport)) == report
    assert b"null" not in report
    assert set(data["dataSpan"]["candleCounts"].values()) == {12_100, 2_421, 808, 202}
    # The hash must be the same on every machine.
    assert sha256(report).hexdigest()[:16] == "e72b0ffcb1291102"
    before = data | {"price": {unit: data["price"][unit] for unit in ("usd", "sol")}}
    assert sha256(msgspec.json.encode(before)).hexdigest()[:16] == "08991eb105d11ddf"


async def test_the_demo_report_has_the_fields_of_endpoint_1_without_its_charge(
    service: Service,
) -> None:
    demo = await service.client.get(TOKEN)
    paid = await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(await service.issue(1)))

    assert set(demo.json()) == set(paid.json())
    assert set(demo.json()["meta"]) == set(paid.json()["meta"])
    assert set(paid.headers) - set(demo.headers) == {"x-credits-remaining"}
    assert set(demo.headers) - set(paid.headers) <= {"vary", "content-encoding"}


async def test_the_demo_demand_never_changes_and_the_official_model_reads_it(
    service: Service,
) -> None:
    response = await service.client.get(DEMAND)
    again = await service.client.get(DEMAND)

    assert response.status_code == 402
    assert response.json()["error"]["code"] == "PAYMENT_REQUIRED"
    assert response.json()["error"]["details"]["accepts"][0]["amount"] == "2500"
    assert response.headers["cache-control"] == "no-store"
    assert again.headers["payment-required"] == response.headers["payment-required"]
    demand = header_of(response.headers["payment-required"])
    (accepts,) = PaymentRequired.model_validate(demand).accepts
    assert demand["resource"]["url"] == "http://127.0.0.1:8402/v1/demo/402"
    assert (accepts.amount, accepts.network) == ("2500", "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1")


async def test_a_payment_for_the_demo_demand_is_refused(service: Service) -> None:
    demand = header_of((await service.client.get(DEMAND)).headers["payment-required"])
    response = await service.client.get(DEMAND, headers=payment(**demand["accepts"][0]))

    assert response.status_code == 402
    assert response.json()["error"]["code"] == "PAYMENT_FAILED"
    reported = header_of(response.headers["payment-response"])
    assert (reported["success"], reported["errorReason"]) == (False, "demo_sells_nothing")
    assert header_of(response.headers["payment-required"])["accepts"] == demand["accepts"]


async def test_a_payment_for_the_demo_demand_is_not_sent_to_the_chain(
    shop: SellingApi, world: World
) -> None:
    """The transaction itself is valid: at the purchase endpoint, it would buy credits."""
    demand = demanded(await shop.client.get(DEMAND))
    wire = shop.transaction(await shop.demand("POST", PURCHASE))
    response = await shop.send("GET", DEMAND, signature_header(demand, wire), key=KEY)

    assert response.json()["error"]["code"] == "PAYMENT_FAILED"
    assert world.calls == []
    assert world.received() == 0
    assert world.sql("SELECT count(*) FROM payment") == 0


async def test_an_unreadable_payment_is_400(service: Service) -> None:
    for headers in ({"PAYMENT-SIGNATURE": "x"}, payment(scheme="exact")):
        response = await service.client.get(DEMAND, headers=headers)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_PAYMENT")


async def test_both_demo_endpoints_are_429_after_60_requests(service: Service) -> None:
    for _ in range(30):
        await service.client.get(TOKEN)
        await service.client.get(DEMAND)

    assert (await service.client.get(DEMAND)).status_code == 429
    assert (await service.client.get(TOKEN)).status_code == 429
