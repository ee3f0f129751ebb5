"""An agent that knows only a base URL: the texts of the service describe each step.

The agent reads /llms.txt, follows the link to the guide, and finds each call by its description in
the guide, which has the path, the scope and the body of the call.  Only the mailbox, the
administrator and the wallet are played by the test.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import httpx

from mintscope.accounts.keys.scope import Scope
from mintscope.accounts.signups.application import SignupId
from mintscope.kit.audit import COMMAND_LINE
from support.fakes.reports import TRACKED
from support.scenes.payments.payment_world import World
from support.scenes.payments.selling_api import KEY, ORIGIN, SellingApi, demanded
from support.scenes.people.agent import Agent
from support.scenes.service import bearer

CALL: Final = re.compile(r"- `(\w+) (/[^`]*)` \([^)]*\): (.*)")
SCOPE: Final = re.compile(r"needs the scope ([a-z:]+)\.")
BODY: Final = re.compile(r"Body: `(\{.*\})`")


@dataclass(frozen=True)
class Written:
    """A call of the API as the guide describes it."""

    method: str
    path: str
    scope: str | None
    body: dict[str, Any]


class Reader:
    """An agent that reads the texts of the service, and makes the calls that they describe."""

    def __init__(self, shop: SellingApi, email: str) -> None:
        self.shop = shop
        self.email = email
        self.headers: dict[str, str] = {}
        self.statuses: list[int] = []
        self.guide = ""

    async def read(self) -> None:
        index = (await self.shop.client.get("/llms.txt")).text
        (address,) = re.findall(r"\[The whole guide\]\((\S+)\)", index)
        self.guide = (await self.shop.client.get(address.removeprefix(ORIGIN))).text
        assert re.search(r"in `Authorization: Bearer`", index)  # where a key is sent
        assert re.search(r"same\s+request\s+with\s+`PAYMENT-SIGNATURE`", index)  # how to pay

    def find(self, does: str) -> Written:
        """Return the call in the guide whose description contains *does*; there must be one."""
        found = [match for match in CALL.finditer(self.guide) if does in match[3]]
        assert len(found) == 1, (does, [match[2] for match in found])
        method, target, text = found[0].groups()
        path = target.partition("?")[0].replace("{tokenAddress}", TRACKED)
        scope, body = SCOPE.search(text), BODY.search(text)
        return Written(
            method, path, scope and scope[1], json.loads(body[1]) if body is not None else {}
        )

    async def call(self, written: Written, query: str = "", **changes: Any) -> httpx.Response:
        body: Any = {"json": written.body | changes} if written.body else {}
        target = written.path + query
        answer = await self.shop.client.request(
            written.method, target, headers=self.headers, **body
        )
        self.statuses.append(answer.status_code)
        return answer


async def test_an_agent_gets_a_key_buys_and_rotates_by_the_texts_of_the_service(
    shop: SellingApi, world: World
) -> None:
    agent = Reader(shop, "reader@example.org")
    await agent.read()
    read = agent.find("Returns the price of a Solana token in USD and SOL, and EMA")
    buy = agent.find("Sells a bundle of credits for a payment")
    alert = agent.find("Makes an alert")
    rotate = agent.find("Returns another API key")
    wanted = sorted({each.scope for each in (read, buy, alert, rotate) if each.scope})

    apply = agent.find("Takes an application for an API key")
    applied = (await agent.call(apply, email=agent.email, scopes=wanted)).json()
    own = {"email": agent.email, "applicationSecret": applied["applicationSecret"]}
    code = shop.service.accounts.code(agent.email)
    await agent.call(agent.find("Confirms the mailbox of an application"), **own, code=code)
    await approve_as_asked(shop, applied["signupId"])
    status = await agent.call(agent.find("Returns the state of an application"), **own)
    exchanged = await agent.call(agent.find("Returns the API key of an approved"), **own)
    agent.headers = {"Authorization": f"Bearer {exchanged.json()['apiKey']}"}

    terms = await agent.call(buy, "?bundle=10")
    agent.headers |= {"PAYMENT-SIGNATURE": shop.pay(demanded(terms)), "Idempotency-Key": KEY}
    bought = await agent.call(buy, "?bundle=10")
    agent.headers = {"Authorization": agent.headers["Authorization"]}
    report = await agent.call(read)
    made = await agent.call(alert, webhookUrl=None, email=True)
    rotated = await agent.call(rotate)
    agent.headers = {"Authorization": f"Bearer {rotated.json()['data']['apiKey']}"}
    again = await agent.call(read)

    assert status.json()["state"] == "approved"
    assert bought.json()["data"]["credits"] == 10
    assert (report.json()["data"]["token"], again.json()["data"]["token"]) == (TRACKED, TRACKED)
    assert again.headers["x-credits-remaining"] == "8"
    assert made.json()["data"]["name"] == alert.body["name"]
    assert agent.statuses == [201, 200, 200, 200, 402, 201, 200, 201, 201, 200]
    assert world.received() == 25_000


# Most need a value that no example has: a wallet's signature, one's own credit token, a code.
OF_ITS_OWN: Final = {
    "POST /v1/credits/rotate", "POST /v1/credits/rotate/challenge", "POST /v1/credits/purchase",
    "POST /v1/account/credits/deposit", "POST /v1/account/wallets", "GET /v1/demo/402",
    "POST /v1/me/key/rotate", "DELETE /v1/me/key", "GET /v1/stream",
}  # fmt: skip
REACHED: Final = {200, 201, 404, 503}
NAMED: Final = re.compile(r"`(\w+) (/v1/[^`?]*)\??[^`]*` \(([^)]*)\): (.*)")


async def test_the_scopes_in_the_guide_suffice_for_each_call(
    shop: SellingApi,
) -> None:
    """Each call has the body that the guide shows, and examples of its required query fields."""
    agent = Reader(shop, "reader@example.org")
    await agent.read()
    document = (await shop.client.get("/openapi.json")).json()
    lines = [match for match in NAMED.finditer(agent.guide) if " ".join(match.groups()[:2])
             not in OF_ITS_OWN]  # fmt: skip
    scopes = {found[1] for line in lines if (found := SCOPE.search(line[4])) is not None}
    key = await Agent(shop.service).key(*map(Scope, sorted(scopes)))
    places: dict[str, str] = {"tokenAddress": TRACKED, "mint": TRACKED, "wallet": TRACKED}
    for name in ("groups", "signals"):
        (made,) = [line for line in lines if line.groups()[:2] == ("POST", f"/v1/{name}")]
        body = json.loads(BODY.findall(made[4])[0]) | ({"webhookUrl": None, "email": True} if
            name == "signals" else {})  # fmt: skip
        answer = await shop.client.post(f"/v1/{name}", json=body, headers=bearer(key))
        places[f"{name[:-1]}Id"] = str(answer.json()["data"][f"{name[:-1]}Id"])
    me = (await shop.client.get("/v1/me", headers=bearer(key))).json()["data"]
    places["keyId"] = str(me["keyId"])
    deposit = {"creditToken": await shop.service.issue(100)}
    await shop.client.post("/v1/account/credits/deposit", json=deposit, headers=bearer(key))

    statuses = {}
    for method, path, cost, text in sorted((line.groups() for line in lines), key=deletes_last):
        parameters = document["paths"][path][method.lower()].get("parameters", [])
        query = {each["name"]: each["example"] for each in parameters
                 if each["in"] == "query" and each["required"]}  # fmt: skip
        target = re.sub(r"\{(\w+)\}", lambda found: places[found[1]], path)
        bodies = BODY.findall(text)
        content: Any = {"json": json.loads(bodies[0])} if bodies else {}
        answer = await shop.client.request(
            method, target, params=query, headers=bearer(key), **content
        )
        statuses[f"{method} {path}"] = answer.status_code
        if answer.is_success and cost == "free":
            assert "x-credits-charged" not in answer.headers
    # The token has no data here: 404 and 503 mean that the request was not refused.
    assert {each: status for each, status in statuses.items() if status not in REACHED} == {
        "POST /v1/account/credits/withdraw": 403,  # as its line says, a key with a cap cannot
    }
    assert {"GET /v1/screen", "GET /v1/trial/{tokenAddress}", "POST /v1/prices"} <= statuses.keys()
    assert len(statuses) > 40


def deletes_last(line: tuple[str, ...]) -> tuple[bool, int]:
    """Return the sort key of a line: deletions come last, and those with longer paths first."""
    method, path, *_ = line
    return method == "DELETE", -path.count("/") if method == "DELETE" else 0


async def approve_as_asked(shop: SellingApi, signup_id: int) -> None:
    """Approve the application *signup_id* with exactly the scopes that it requested."""
    review = shop.service.accounts.review
    application = await review.application(SignupId(signup_id))
    assert application is not None
    asked = application.form.asked_scopes
    await review.approve(SignupId(signup_id), scopes=asked, note="", actor=COMMAND_LINE)
