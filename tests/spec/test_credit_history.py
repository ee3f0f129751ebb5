"""GET /v1/credits/history: the entries and the daily spends of a credit token."""

import pytest

from mintscope.kit.time import DAY_MS, DAY_S
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import OTHER_KEY, SellingApi
from support.scenes.service import NOW, Service, bearer

PATH = "/v1/credits/history"


async def test_the_history_has_the_grant_and_the_spends_of_each_day(service: Service) -> None:
    token = await service.issue(5)
    for _ in range(3):
        await service.client.get(f"/v1/token/{TRACKED}", headers=bearer(token))
    response = await service.client.get(PATH, headers=bearer(token))

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert set(response.json()["meta"]) == {"timestamp"}
    assert response.json()["data"] == {
        "balance": 2,
        "spent": 3,
        "entries": [{"kind": "grant", "credits": 5, "balance": 5, "at": NOW // 1000}],
        "days": [{"day": NOW // DAY_MS * DAY_S, "credits": 3}],
    }


async def test_the_newest_entries_come_first(shop: SellingApi, world: World) -> None:
    token = (await shop.buy()).json()["data"]["token"]
    world.seconds(60)
    path = "/v1/credits/purchase?bundle=50"
    payment = await shop.paid("POST", path)
    await shop.send("POST", path, payment, key=OTHER_KEY, **bearer(token))

    data = (await shop.client.get(PATH, headers=bearer(token))).json()["data"]
    kinds = [(entry["kind"], entry["credits"], entry["balance"]) for entry in data["entries"]]
    assert kinds == [("top_up", 50, 60), ("payment", 10, 10)]
    assert data["entries"][0]["at"] > data["entries"][1]["at"]


async def test_the_history_has_only_entries_of_its_own_credit_token(service: Service) -> None:
    mine, other = await service.issue(5), await service.issue(7)

    mine_data = (await service.client.get(PATH, headers=bearer(mine))).json()["data"]
    other_data = (await service.client.get(PATH, headers=bearer(other))).json()["data"]
    assert (mine_data["balance"], other_data["balance"]) == (5, 7)
    assert len(mine_data["entries"]) == len(other_data["entries"]) == 1


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, "MISSING_TOKEN"),
        ({"authorization": "Bearer"}, "MISSING_TOKEN"),
        (bearer("x"), "INVALID_TOKEN"),
    ],
)
async def test_a_request_without_a_credit_token_is_401(
    service: Service, headers: dict[str, str], code: str
) -> None:
    response = await service.client.get(PATH, headers=headers)

    assert (response.status_code, response.json()["error"]["code"]) == (401, code)
