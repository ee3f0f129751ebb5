"""/v1/groups: watchlists of an account."""

from typing import Any, Final

import httpx
import pytest
from solders.pubkey import Pubkey

from mintscope.accounts.keys.scope import Scope
from support.scenes.people.agent import Agent
from support.scenes.service import NOW, Service, bearer, refusal

GROUPS: Final = "/v1/groups"
MINTS: Final = [str(Pubkey(number.to_bytes(32))) for number in range(1, 202)]


@pytest.fixture
async def key(service: Service) -> str:
    return await Agent(service).key(Scope.GROUPS_WRITE)


async def call(service: Service, key: str, method: str, path: str, **body: Any) -> httpx.Response:
    sent: Any = {"json": body} if body else {}
    return await service.client.request(method, path, headers=bearer(key), **sent)


async def make(service: Service, key: str, name: str) -> str:
    response = await call(service, key, "POST", GROUPS, name=name)
    assert response.status_code == 201, response.text
    return f"{GROUPS}/{response.json()['data']['groupId']}"


async def test_a_watchlist_is_made_named_filled_emptied_and_deleted(
    service: Service, key: str
) -> None:
    assert (await call(service, key, "GET", GROUPS)).json()["data"] == {"groups": []}
    made = (await call(service, key, "POST", GROUPS, name=" dogs ")).json()["data"]
    path = f"{GROUPS}/{made['groupId']}"
    line = {"groupId": made["groupId"], "name": "dogs", "createdAt": NOW // 1000}
    assert made == line | {"mintCount": 0, "mints": []}

    for mint in (MINTS[1], MINTS[0], MINTS[1]):  # the second PUT of a mint changes nothing
        added = await call(service, key, "PUT", f"{path}/mints/{mint}")
        assert added.status_code == 200
    both = line | {"mintCount": 2, "mints": [MINTS[1], MINTS[0]]}
    assert added.json()["data"] == (await call(service, key, "GET", path)).json()["data"] == both
    renamed = await call(service, key, "PATCH", path, name="cats")
    assert renamed.json()["data"] == both | {"name": "cats"}
    removed = await call(service, key, "DELETE", f"{path}/mints/{MINTS[1]}")
    assert removed.json()["data"] == line | {"name": "cats", "mintCount": 1, "mints": [MINTS[0]]}
    listed = (await call(service, key, "GET", GROUPS)).json()["data"]
    assert listed == {"groups": [line | {"name": "cats", "mintCount": 1}]}

    assert (await call(service, key, "DELETE", path)).json()["data"] == {"groups": []}
    assert refusal(await call(service, key, "GET", path)) == (404, "NOT_FOUND")


async def test_an_unknown_or_anothers_watchlist_is_404(service: Service, key: str) -> None:
    path = await make(service, key, "ours")
    await call(service, key, "PUT", f"{path}/mints/{MINTS[0]}")
    other = await Agent(service, "other@example.org").key(Scope.GROUPS_WRITE)
    assert (await call(service, other, "GET", GROUPS)).json()["data"] == {"groups": []}
    for caller, where in ((other, path), (key, f"{GROUPS}/99"), (key, f"{GROUPS}/x")):
        for method, end, body in (
            ("GET", "", {}),
            ("PATCH", "", {"name": "theirs"}),
            ("DELETE", "", {}),
            ("PUT", f"/mints/{MINTS[1]}", {}),
            ("DELETE", f"/mints/{MINTS[0]}", {}),
        ):
            response = await call(service, caller, method, f"{where}{end}", **body)
            assert refusal(response) == (404, "NOT_FOUND")
            assert "watchlist with this number" in response.json()["error"]["message"]
    gone = await call(service, key, "DELETE", f"{path}/mints/{MINTS[1]}")  # not on the watchlist
    assert refusal(gone) == (404, "NOT_FOUND")
    assert "or the watchlist does not have this mint" in gone.json()["error"]["message"]
    kept = (await call(service, key, "GET", path)).json()["data"]
    assert (kept["name"], kept["mints"]) == ("ours", [MINTS[0]])


@pytest.mark.parametrize("name", ["", "   ", "x" * 65, "a\0b", "a\nb", 7, None])
async def test_an_invalid_name_is_refused(service: Service, key: str, name: Any) -> None:
    path = await make(service, key, "n" * 64)
    for method, where in (("POST", GROUPS), ("PATCH", path)):
        response = await call(service, key, method, where, name=name)
        assert refusal(response) == (400, "BAD_REQUEST")
    blank = await call(service, key, "POST", GROUPS, name=" ")
    expected = "expected name to be printable, and not only spaces"
    assert blank.json()["error"]["message"] == expected
    assert refusal(await call(service, key, "POST", GROUPS)) == (400, "BAD_REQUEST")
    listed = (await call(service, key, "GET", GROUPS)).json()["data"]["groups"]
    assert [each["name"] for each in listed] == ["n" * 64]


async def test_an_invalid_mint_is_refused(service: Service, key: str) -> None:
    path = await make(service, key, "a")
    for method in ("PUT", "DELETE"):
        response = await call(service, key, method, f"{path}/mints/x")
        assert refusal(response) == (400, "INVALID_TOKEN_ADDRESS")


async def test_an_account_has_at_most_20_watchlists(service: Service, key: str) -> None:
    paths = [await make(service, key, str(number)) for number in range(20)]
    response = await call(service, key, "POST", GROUPS, name="one more")
    assert refusal(response) == (400, "BAD_REQUEST")
    assert "20 watchlists" in response.json()["error"]["message"]
    await call(service, key, "DELETE", paths[3])
    again = await make(service, key, "instead")
    assert again not in paths  # a number is never used again


async def test_the_same_idempotency_key_creates_one_watchlist(service: Service, key: str) -> None:
    headers = bearer(key) | {"idempotency-key": "a-key-of-some-length"}

    async def post(name: str) -> httpx.Response:
        return await service.client.post(GROUPS, json={"name": name}, headers=headers)

    first, again = await post("dogs"), await post("dogs")
    assert first.json()["data"] == again.json()["data"]
    assert refusal(await post("cats")) == (409, "IDEMPOTENCY_KEY_USED")
    await call(service, key, "DELETE", f"{GROUPS}/{first.json()['data']['groupId']}")
    gone = await post("dogs")
    assert refusal(gone) == (404, "NOT_FOUND")
    assert "this Idempotency-Key was deleted" in gone.json()["error"]["message"]
    short = await service.client.post(
        GROUPS, json={"name": "dogs"}, headers=headers | {"idempotency-key": "short"}
    )
    assert refusal(short) == (400, "BAD_REQUEST")
    assert (await call(service, key, "GET", GROUPS)).json()["data"] == {"groups": []}


async def test_a_watchlist_has_at_most_200_mints(service: Service, key: str) -> None:
    path = await make(service, key, "a")
    for mint in MINTS[:199]:
        service.accounts.change(
            "INSERT INTO watched_mint (watchlist, mint, added_at)"
            " SELECT id, ?, created_at FROM watchlist",
            mint,
        )
    assert (await call(service, key, "PUT", f"{path}/mints/{MINTS[199]}")).status_code == 200
    response = await call(service, key, "PUT", f"{path}/mints/{MINTS[200]}")
    assert refusal(response) == (400, "BAD_REQUEST")
    assert "200 mints" in response.json()["error"]["message"]
    assert (await call(service, key, "PUT", f"{path}/mints/{MINTS[0]}")).status_code == 200
    assert (await call(service, key, "GET", path)).json()["data"]["mints"] == MINTS[:200]


async def test_each_route_needs_its_scope_and_a_key(service: Service) -> None:
    reader = await Agent(service).key()
    writes = (
        ("POST", GROUPS),
        ("PATCH", f"{GROUPS}/1"),
        ("DELETE", f"{GROUPS}/1"),
        ("PUT", f"{GROUPS}/1/mints/{MINTS[0]}"),
        ("DELETE", f"{GROUPS}/1/mints/{MINTS[0]}"),
    )
    reads = (("GET", GROUPS), ("GET", f"{GROUPS}/1"))
    for method, path in (*writes, *reads):
        response = await service.client.request(method, path)
        assert refusal(response) == (401, "MISSING_TOKEN")
    assert (await call(service, reader, "GET", GROUPS)).status_code == 200
    for method, path in writes:
        response = await call(service, reader, method, path)
        assert refusal(response) == (403, "INSUFFICIENT_SCOPE")
    service.accounts.change("UPDATE api_key SET scopes = ?", '["groups:write"]')
    for method, path in reads:
        response = await call(service, reader, method, path)
        assert refusal(response) == (403, "INSUFFICIENT_SCOPE")


async def test_a_key_is_limited_to_60_requests_a_minute(service: Service, key: str) -> None:
    answers = [(await call(service, key, "GET", GROUPS)).status_code for _ in range(61)]
    assert answers == [200] * 60 + [429]
