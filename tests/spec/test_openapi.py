"""GET /openapi.json describes the API; test_api_page.py compares its routes with docs/api.md."""

import re
from typing import Any

import jsonschema
import pytest

from support.fakes.reports import TRACKED
from support.scenes.accounts_service import signup_body
from support.scenes.payments.selling_api import SellingApi
from support.scenes.people.agent import Agent
from support.scenes.service import Service, bearer

CREDENTIALS = {"email": "agent@example.org", "applicationSecret": "svc_app_" + "0" * 64}
VERB = re.compile(r"([a-z]+)(?:[A-Z][a-z]*|[0-9]+)+$")

# Patterns have the syntax of ECMAScript, which Python cannot read in full.
EXAMPLE_OF = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"pattern": lambda *_: None}
)


@pytest.fixture
async def document(service: Service) -> dict[str, Any]:
    response = await service.client.get("/openapi.json")
    assert response.status_code == 200
    return dict(response.json())


def references(node: Any) -> set[str]:
    if isinstance(node, dict):
        own = {node["$ref"]} if "$ref" in node else set()
        return own.union(*(references(child) for child in node.values()))
    if isinstance(node, list):
        return set().union(*(references(child) for child in node))
    return set()


async def test_each_operation_has_a_clear_name_of_its_own(document: dict[str, Any]) -> None:
    """Generated clients use these names: a verb and its object, in camelCase."""
    names = [way["operationId"] for ways in document["paths"].values() for way in ways.values()]
    verbs = {VERB.match(name)[1] for name in names}  # type: ignore[index]  # each begins with one

    assert len(set(names)) == len(names)
    assert verbs == {
        "add", "apply", "ask", "backtest", "buy", "cap", "change", "confirm", "delete", "deposit",
        "exchange", "get", "link", "list", "make", "open", "remove", "rename", "renew",
        "revoke", "rotate", "screen", "test", "try", "unlink", "withdraw",
    }  # fmt: skip
    assert {"getToken", "listTokens", "openStream", "buyCredits"} <= set(names)


async def test_every_reference_resolves(document: dict[str, Any]) -> None:
    for reference in references(document):
        node: Any = document
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]
        assert node


async def test_the_token_data_has_every_field_of_the_specification(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["TokenReport"]["properties"]) == {
        "token", "price", "indicators", "dataSpan", "coverage",
    }  # fmt: skip
    assert set(schemas["Indicators"]["properties"]) == {
        "m1", "m5", "m15", "h1", "buySellPressure", "s15", "m30", "h4", "d1",
    }  # fmt: skip
    assert set(schemas["TimeframeIndicators"]["properties"]) >= {
        "ema9", "ema21", "ema50", "ema200", "rsi", "macd", "fibonacci",
    }  # fmt: skip
    assert set(schemas["DataSpan"]["properties"]) == {"from", "to", "candleCounts"}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        (f"/v1/token/{TRACKED}", {}),
        ("/v1/token/abc", {}),
        (f"/v1/token/{TRACKED}", bearer("x")),
        ("/v1/credits/balance", {}),
        ("/v1/credits/bundles", {}),
        ("/v1/credits/history", bearer("x")),
        (f"/v1/token/{TRACKED}", {"PAYMENT-SIGNATURE": "x"}),
    ],
)
async def test_every_refusal_of_token_and_credit_routes_is_described(
    service: Service, document: dict[str, Any], path: str, headers: dict[str, str]
) -> None:
    response = await service.client.get(path, headers=headers)
    template = "/v1/token/{tokenAddress}" if "/token/" in path else path
    announced = document["paths"][template]["get"]["responses"][str(response.status_code)]

    assert response.json()["error"]["code"] in announced["description"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/credits/purchase", {}),
        ("/v1/credits/purchase?bundle=10", {}),
        ("/v1/credits/purchase?bundle=10", bearer("x")),
        ("/v1/credits/purchase?bundle=10", {"PAYMENT-SIGNATURE": "x"}),
        ("/v1/credits/rotate", {}),
        ("/v1/credits/rotate/challenge", {}),
    ],
)
async def test_every_refusal_of_a_sale_is_described(
    shop: SellingApi, path: str, headers: dict[str, str]
) -> None:
    document = (await shop.client.get("/openapi.json")).json()
    response = await shop.client.post(path, headers=headers)
    announced = document["paths"][path.partition("?")[0]]["post"]["responses"]

    assert response.json()["error"]["code"] in announced[str(response.status_code)]["description"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/public/beta-signup", {}),
        ("/api/public/beta-signup", {"x": "x" * 20_000}),
        ("/api/public/beta-signup", signup_body("taken@example.org")),
        ("/api/auth/confirm-email", CREDENTIALS | {"code": "00000000"}),
        ("/api/auth/application-status", CREDENTIALS),
        ("/api/auth/exchange-secret", CREDENTIALS),
        ("/api/auth/exchange-secret", CREDENTIALS | {"applicationSecret": "x"}),
        ("/api/auth/exchange-secret", {}),
    ],
)
async def test_every_refusal_of_an_account_is_described_with_its_shape(
    service: Service, document: dict[str, Any], path: str, body: dict[str, Any]
) -> None:
    await service.client.post("/api/public/beta-signup", json=signup_body("taken@example.org"))
    response = await service.client.post(path, json=body)
    announced = document["paths"][path]["post"]["responses"][str(response.status_code)]
    reference = announced["content"]["application/json"]["schema"]["$ref"]
    schema = document["components"]["schemas"][reference.rpartition("/")[2]]
    reported = response.json()
    code = response.headers.get("x-error-code") or reported["error"]["code"]

    assert code in announced["description"]
    assert set(reported) == set(schema["properties"]) - {"retryAfter"}
    assert ("X-Error-Code" in announced["headers"]) == ("x-error-code" in response.headers)


async def test_every_answer_of_an_account_is_described(
    service: Service, document: dict[str, Any]
) -> None:
    def schema(path: str, method: str, status: str) -> dict[str, Any]:
        operation = document["paths"][path][method]
        found: dict[str, Any] = operation["responses"][status]["content"]["application/json"]
        found = found["schema"]
        if "properties" in found:
            found = found["properties"]["data"]
        name = found["$ref"].rpartition("/")[2]
        return dict(document["components"]["schemas"][name]["properties"])

    agent = Agent(service)
    signed_up = await agent.post("/api/public/beta-signup", signup_body())
    agent.signup_id = signed_up.json()["signupId"]
    agent.secret = signed_up.json()["applicationSecret"]
    await agent.be_approved()
    status = await agent.status()
    exchanged = await agent.exchange()
    key = exchanged.json()["apiKey"]
    me = (await service.client.get("/v1/me", headers=bearer(key))).json()["data"]

    assert set(schema("/api/public/beta-signup", "post", "201")) == set(signed_up.json())
    assert set(schema("/api/auth/application-status", "post", "200")) == set(status.json())
    assert set(schema("/api/auth/exchange-secret", "post", "200")) == set(exchanged.json())
    assert set(schema("/v1/me", "get", "200")) - {"scopesAskedFor"} == set(me)


async def test_the_request_bodies_of_the_account_routes_are_described(
    document: dict[str, Any],
) -> None:
    def body(path: str) -> dict[str, Any]:
        request = document["paths"][path]["post"]["requestBody"]
        assert request["required"] is True
        name = request["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        return dict(document["components"]["schemas"][name])

    assert document["paths"]["/v1/me"]["get"]["security"] == [{"apiKey": []}]
    signup, exchange = body("/api/public/beta-signup"), body("/api/auth/exchange-secret")
    optional = {"telegram", "twitter", "scopes"}
    assert set(signup["properties"]) == optional | {"email", "userType", "motivation"}
    assert set(signup["required"]) == {"email", "userType", "motivation"}
    assert set(exchange["required"]) == set(exchange["properties"]) == set(CREDENTIALS)
    assert set(body("/api/auth/confirm-email")["required"]) == {*CREDENTIALS, "code"}
    assert document["components"]["schemas"]["UserType"]["enum"] == ["both", "provider", "trader"]


async def test_credentials_headers_and_prices_of_paid_routes_are_described(
    document: dict[str, Any],
) -> None:
    token = document["paths"]["/v1/token/{tokenAddress}"]["get"]
    purchase = document["paths"]["/v1/credits/purchase"]["post"]

    def sent(operation: dict[str, Any]) -> set[str]:
        return {each["name"] for each in operation["parameters"] if each["in"] == "header"}

    assert token["security"] == [{"creditToken": []}, {}]
    assert purchase["security"] == [{}, {"creditToken": []}]
    assert sent(purchase) == {"PAYMENT-SIGNATURE", "Idempotency-Key"}
    assert sent(token) == sent(purchase) | {"If-None-Match", "SIGN-IN-WITH-X"}
    assert token["x-payment-info"]["price"] == {
        "mode": "fixed", "currency": "USD", "amount": "0.0025",
    }  # fmt: skip
    assert purchase["x-payment-info"]["price"] == {
        "mode": "dynamic", "currency": "USD", "min": "0.025", "max": "0.75",
    }  # fmt: skip
    assert set(document["components"]["securitySchemes"]) == {"creditToken", "apiKey"}
    assert "PAYMENT-REQUIRED" in token["responses"]["402"]["headers"]
    assert "PAYMENT-RESPONSE" in token["responses"]["402"]["headers"]
    assert "PAYMENT-RESPONSE" in token["responses"]["200"]["headers"]
    assert "PAYMENT-RESPONSE" in purchase["responses"]["201"]["headers"]
    assert {"Retry-After", "Idempotency-Key"} <= set(purchase["responses"]["503"]["headers"])
    assert purchase["parameters"][0] == {
        "name": "bundle",
        "in": "query",
        "required": True,
        "description": "How many credits.",
        "schema": {"type": "integer", "enum": [10, 50, 100, 500], "examples": [10]},
        "example": 10,
    }


async def test_bundles_and_purchases_have_each_field_of_the_specification(
    document: dict[str, Any],
) -> None:
    schemas = document["components"]["schemas"]

    assert set(schemas["BundleLine"]["properties"]) == {
        "credits", "price", "pricePerCredit", "discount", "priceUsd",
    }  # fmt: skip
    assert set(schemas["Currency"]["properties"]) == {
        "asset", "name", "network", "decimals", "symbol",
    }  # fmt: skip
    assert set(schemas["Purchase"]["properties"]) == {"token", "credits", "pricePaid", "userId"}


async def test_every_example_conforms_to_its_schema(document: dict[str, Any]) -> None:
    def example(path: str, method: str = "post", status: str = "200") -> Any:
        answer = document["paths"][path][method]["responses"][status]
        return answer["content"]["application/json"]["example"]["data"]

    bodies = [
        body
        for ways in document["paths"].values()
        for each in ways.values()
        for holder in (each.get("requestBody", {}), *each["responses"].values())
        for body in holder.get("content", {}).values()
        if "examples" not in body  # refusals have an example for each code
    ]
    for body in bodies:
        shape = body["schema"] | {"components": document["components"]}
        EXAMPLE_OF(shape).validate(body["example"])
    assert [set(each) for each in example("/v1/tokens/batch")["results"]] == [
        {"token", "report"}, {"token", "error"},
    ]  # fmt: skip
    assert "userId" not in example("/v1/credits/purchase", status="201")


async def test_each_route_that_may_answer_304_is_described(
    service: Service, document: dict[str, Any]
) -> None:
    conditional = {
        path
        for path, ways in document["paths"].items()
        for way in ways.values()
        if "304" in way["responses"]
    }
    assert conditional == {
        "/v1/token/{tokenAddress}",
        "/v1/token/{tokenAddress}/icon.svg",
        "/v1/demo/token",
    }
    for path in conditional:
        reported = document["paths"][path]["get"]
        assert "If-None-Match" in {each["name"] for each in reported["parameters"]}
        headers = bearer(await service.issue(1)) | {"If-None-Match": "*"}
        url = path.replace("{tokenAddress}", TRACKED)
        assert (await service.client.get(url, headers=headers)).status_code == 304
