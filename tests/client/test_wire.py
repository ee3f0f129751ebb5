"""The client reads, in each answer, the fields that the service describes."""

import asyncio
import inspect
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from mintscope_client import AsyncClient, Client
from mintscope_client.calls.call import ApiCall
from mintscope_client.endpoints import (
    accounts,
    alerts,
    backtests,
    lists,
    market,
    methods,
    purchases,
    reports,
    series,
    signups,
)
from mintscope_client.endpoints.methods import AsyncRawResponses, RawResponses
from support.scenes.service import running_service

MINT = "So11111111111111111111111111111111111111112"
WALLET = "7fUAJdStEuGbc3sM84cKRL6yYaaSstyLSU4ve5oovLS7"
PURCHASE = SIGNATURE = "5" * 87
TOKEN = "svc_credit_" + "0123456789abcdef" * 4
SECRET = "svc_app_" + "0123456789abcdef" * 4
EMAIL = "agent@example.org"
PLACES = {
    "tokenAddress": MINT, "mint": MINT, "wallet": WALLET, "keyId": "3", "groupId": "7",
    "signalId": "7",
}  # fmt: skip
# A picture, demos, the data feed of charts (udf), health, the screen by POST, and the stream.
NO_CALLS = {
    "GET /v1/token/{tokenAddress}/icon.svg", "GET /v1/demo/token", "GET /v1/demo/402",
    "GET /v1/udf/config", "GET /v1/udf/time", "GET /v1/udf/symbols", "GET /v1/udf/search",
    "GET /v1/udf/history", "GET /v1/udf/marks",
    "GET /v1/health", "POST /v1/screen", "GET /healthz", "GET /readyz", "GET /v1/stream",
}  # fmt: skip
CALLS: dict[str, ApiCall[Any]] = {
    "GET /v1/token/{tokenAddress}": reports.token(MINT),
    "GET /v1/trial/{tokenAddress}": reports.trial(MINT),
    "GET /v1/token/{tokenAddress}/candles": series.candles(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/indicators": series.indicators(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/swaps": series.swaps(MINT).call_at(None),
    "GET /v1/token/{tokenAddress}/metadata": lists.metadata(MINT),
    "GET /v1/token/{tokenAddress}/pools": market.pools(MINT),
    "POST /v1/prices": reports.past_prices([(MINT, 1_763_460_000)]),
    "POST /v1/backtest": backtests.backtest_tokens([MINT], "price > 0"),
    "GET /v1/token/{tokenAddress}/backtest": backtests.backtest(MINT, "price > 0"),
    "GET /v1/token/{tokenAddress}/traders": market.traders(MINT),
    "GET /v1/token/{tokenAddress}/holders": market.holders(MINT),
    "GET /v1/screen": lists.screen("price > 0").call_at(None),
    "GET /v1/tokens": lists.tokens().call_at(None),
    "POST /v1/tokens/batch": reports.batch([MINT]),
    "GET /v1/credits/bundles": purchases.bundles(),
    "GET /v1/credits/balance": purchases.balance(),
    "GET /v1/credits/history": purchases.history(),
    "POST /v1/credits/purchase": purchases.purchase(10),
    "POST /v1/credits/rotate": purchases.claim_credits(PURCHASE, WALLET, "text", SIGNATURE),
    "POST /v1/credits/rotate/challenge": purchases.claim_challenge(PURCHASE, WALLET),
    "GET /v1/account": accounts.account(),
    "PATCH /v1/account/keys/{keyId}": accounts.cap_key(3, 100),
    "POST /v1/account/credits/deposit": accounts.deposit(TOKEN, 10),
    "POST /v1/account/credits/withdraw": accounts.withdraw(10),
    "GET /v1/account/wallets": accounts.wallets(),
    "POST /v1/account/wallets/challenge": accounts.wallet_challenge(WALLET),
    "POST /v1/account/wallets": accounts.link_wallet(WALLET, "text", SIGNATURE),
    "DELETE /v1/account/wallets/{wallet}": accounts.unlink_wallet(WALLET),
    "GET /v1/account/payments": accounts.payments().call_at(None),
    "GET /v1/groups": accounts.watchlists(),
    "POST /v1/groups": accounts.make_watchlist("Dogs"),
    "GET /v1/groups/{groupId}": accounts.watchlist(7),
    "PATCH /v1/groups/{groupId}": accounts.rename_watchlist(7, "Cats"),
    "DELETE /v1/groups/{groupId}": accounts.delete_watchlist(7),
    "PUT /v1/groups/{groupId}/mints/{mint}": accounts.watch(7, MINT),
    "DELETE /v1/groups/{groupId}/mints/{mint}": accounts.unwatch(7, MINT),
    "GET /v1/signals": alerts.signals(),
    "POST /v1/signals": alerts.make_signal("high", MINT, "price.usd", "above", level=200.0),
    "GET /v1/signals/{signalId}": alerts.signal(7),
    "PATCH /v1/signals/{signalId}": alerts.change_signal(7, level=3.0, is_active=False),
    "DELETE /v1/signals/{signalId}": alerts.delete_signal(7),
    "GET /v1/signals/{signalId}/events": alerts.signal_events(7).call_at(None),
    "POST /v1/signals/{signalId}/secret": alerts.renew_signal_secret(7),
    "POST /v1/signals/{signalId}/test": alerts.test_signal(7),
    "GET /v1/me": accounts.me(),
    "POST /v1/me/key/rotate": accounts.rotate_key("24h"),
    "DELETE /v1/me/key": accounts.revoke_key(),
    "POST /v1/me/key/scopes": accounts.ask_for_scopes(["trade:write"], "To buy."),
    "POST /api/public/beta-signup": signups.sign_up(
        EMAIL, "To trade.", scopes=["trade:write"], telegram="@agent"
    ),
    "POST /api/auth/confirm-email": signups.confirm_email(EMAIL, SECRET, "12345678"),
    "POST /api/auth/application-status": signups.application_status(EMAIL, SECRET),
    "POST /api/auth/exchange-secret": signups.exchange_secret(EMAIL, SECRET),
}


SAID_BY_STATUS = ("success", "status")  # of answers without an envelope
# The details of a 402: no line of a batch is a 402.
NOT_READ = {
    "BatchReports.results[].error.details: is lost",
    "PastPrices.prices[].error.details: is lost",
    "TokensBacktest.tokens[].error.details: is lost",
}


class Shape:
    """A JSON schema, with the schemas to which its `$ref` may point."""

    def __init__(self, schema: dict[str, Any], references: dict[str, Any]) -> None:
        while "$ref" in schema:
            schema = references[schema["$ref"].rpartition("/")[2]]
        self.schema, self.references = schema, references

    def variants(self) -> Iterator["Shape"]:
        """Yield the alternatives in the schema, or the schema itself if it has none."""
        choices = self.schema.get("anyOf") or self.schema.get("oneOf")
        if choices is None:
            yield self
        for each in choices or ():
            yield from Shape(each, self.references).variants()

    def by_type(self) -> dict[str, "Shape"]:
        return {name: each for each in self.variants() for name in each.types()}

    def types(self) -> list[str]:
        kind = self.schema.get("type")
        if kind is not None:
            return [kind] if isinstance(kind, str) else kind
        values = self.schema.get("enum") or [self.schema.get("const")]
        return ["string" if isinstance(each, str) else "integer" for each in values]

    def at(self, name: str) -> "Shape":
        return Shape(self.schema[name], self.references)

    def fields(self) -> dict[str, "Shape"]:
        found = self.schema.get("properties", {})
        return {name: Shape(each, self.references) for name, each in found.items()}


def flaws(ours: Shape, theirs: Shape, where: str) -> Iterator[str]:
    """Yield each way in which a reader of the shape *ours* misreads data of the shape *theirs*."""
    taken = ours.by_type()
    for name, sent in theirs.by_type().items():
        other = taken.get(name) or (taken.get("number") if name == "integer" else None)
        if other is None:
            yield f"{where}: {name} is sent, and {sorted(taken)} read"
        elif name == "array":
            yield from flaws(other.at("items"), sent.at("items"), f"{where}[]")
        elif name == "object" and sent.fields():
            mine, sends = other.fields(), sent.fields()
            yield from (f"{where}.{each}: only here" for each in sorted(mine.keys() - sends.keys()))
            yield from (f"{where}.{each}: is lost" for each in sorted(sends.keys() - mine.keys()))
            needed = {*other.schema.get("required", ())} - {*sent.schema.get("required", ())}
            yield from (f"{where}.{each}: may not be sent" for each in sorted(needed))
            for each in sorted(mine.keys() & sends.keys()):
                yield from flaws(mine[each], sends[each], f"{where}.{each}")


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the OpenAPI document of the service."""

    async def read() -> dict[str, Any]:
        async with running_service(tmp_path_factory.mktemp("service")) as service:
            found: dict[str, Any] = (await service.client.get("/openapi.json")).json()
            return found

    return asyncio.run(read())


@pytest.mark.parametrize("route", CALLS)
def test_each_field_is_read_as_it_is_described(document: dict[str, Any], route: str) -> None:
    method, path = route.split()
    responses = document["paths"][path][method.lower()]["responses"]
    (success,) = (found for status, found in responses.items() if status in {"200", "201"})
    answer = Shape(
        success["content"]["application/json"]["schema"], document["components"]["schemas"]
    )
    call = CALLS[route]
    kind = call.kind
    (schema,), components = msgspec.json.schema_components([kind])

    sent = answer.fields()["data"] if call.is_enveloped else answer
    found = {*flaws(Shape(schema, components), sent, kind.__name__)}
    assert (
        found - NOT_READ - ({f"{kind.__name__}.{each}: is lost" for each in SAID_BY_STATUS})
        == set()
    )


def test_each_call_has_the_method_and_the_path_of_its_endpoint() -> None:
    for route, call in CALLS.items():
        method, path = route.split()
        for name, value in PLACES.items():
            path = path.replace(f"{{{name}}}", value)
        assert (call.method, call.path) == (method, path)


def test_the_client_has_a_call_of_every_endpoint(document: dict[str, Any]) -> None:
    paths = document["paths"]
    served = {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs}

    assert served - NO_CALLS == set(CALLS)


@pytest.mark.parametrize("route", [route for route, call in CALLS.items() if call.body])
def test_each_body_is_valid_by_the_openapi_document(document: dict[str, Any], route: str) -> None:
    method, path = route.split()
    body = document["paths"][path][method.lower()]["requestBody"]
    schema = body["content"]["application/json"]["schema"] | {"components": document["components"]}

    validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator, {"pattern": lambda *_: None}
    )
    validator(schema).validate(msgspec.json.decode(CALLS[route].body))


@pytest.mark.parametrize("route", list(CALLS))
def test_each_query_has_only_parameters_of_the_openapi_document(
    document: dict[str, Any], route: str
) -> None:
    method, path = route.split()
    described = document["paths"][path][method.lower()].get("parameters", ())
    names = {each["name"] for each in described if each["in"] == "query"}

    assert {name for name, _ in CALLS[route].query} <= names
    takes_key = any(each["name"] == "Idempotency-Key" for each in described)
    assert CALLS[route].takes_key <= takes_key


def test_clients_of_every_kind_have_a_method_of_each_call() -> None:
    modules = [each for each in vars(methods).values() if inspect.ismodule(each)]
    calls = {
        name: str(inspect.signature(call).return_annotation)
        for module in modules
        for name, call in inspect.getmembers(module, inspect.isfunction)
        if call.__module__ == module.__name__ and not name.startswith("_")
    }
    answered = {name for name, kind in calls.items() if "ApiCall[" in kind} - {"purchase"}
    paged = {name for name, kind in calls.items() if "PagedCall[" in kind}
    assert len(answered) > 40
    assert len(paged) == 7
    for kind in (Client, AsyncClient, RawResponses, AsyncRawResponses):
        assert {name for name in answered if not hasattr(kind, name)} == set()
    for client in (Client, AsyncClient):
        assert {name for name in paged if not hasattr(client, name)} == set()
