"""The client expects of an answer the fields that the service describes."""

import inspect
from collections.abc import Iterator
from typing import Any

import jsonschema
import msgspec
import pytest

from mintscope_client import AsyncClient, Client
from mintscope_client.calls import account, verbs
from mintscope_client.calls.call import ApiCall
from mintscope_client.calls.methods import AsyncRawResponses, RawResponses
from support.scenes.service import Service

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
# A picture, the files of clients, the health of the service; and streams, which are not one call.
NO_CALLS = {
    "GET /v1/token/{tokenAddress}/icon.svg", "GET /v1/demo/token", "GET /v1/demo/402",
    "GET /v1/udf/config", "GET /v1/udf/time", "GET /v1/udf/symbols", "GET /v1/udf/search",
    "GET /v1/udf/history", "GET /v1/udf/marks",
    "GET /v1/health", "POST /v1/screen", "GET /healthz", "GET /readyz", "GET /v1/stream",
}  # fmt: skip
CALLS: dict[str, ApiCall[Any]] = {
    "GET /v1/token/{tokenAddress}": verbs.token(MINT),
    "GET /v1/trial/{tokenAddress}": verbs.trial(MINT),
    "GET /v1/token/{tokenAddress}/candles": verbs.candles(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/indicators": verbs.indicators(MINT, "m1").call_at(None),
    "GET /v1/token/{tokenAddress}/swaps": verbs.swaps(MINT).call_at(None),
    "GET /v1/token/{tokenAddress}/metadata": verbs.metadata(MINT),
    "GET /v1/token/{tokenAddress}/pools": verbs.pools(MINT),
    "POST /v1/prices": verbs.past_prices([(MINT, 1_763_460_000)]),
    "POST /v1/backtest": verbs.backtest_tokens([MINT], "price > 0"),
    "GET /v1/token/{tokenAddress}/backtest": verbs.backtest(MINT, "price > 0"),
    "GET /v1/token/{tokenAddress}/traders": verbs.traders(MINT),
    "GET /v1/token/{tokenAddress}/holders": verbs.holders(MINT),
    "GET /v1/screen": verbs.screen("price > 0").call_at(None),
    "GET /v1/tokens": verbs.tokens().call_at(None),
    "POST /v1/tokens/batch": verbs.batch([MINT]),
    "GET /v1/credits/bundles": verbs.BUNDLES,
    "GET /v1/credits/balance": verbs.BALANCE,
    "GET /v1/credits/history": verbs.HISTORY,
    "POST /v1/credits/purchase": verbs.purchase(10),
    "POST /v1/credits/rotate": account.claim_credits(PURCHASE, WALLET, "text", SIGNATURE),
    "POST /v1/credits/rotate/challenge": account.claim_challenge(PURCHASE, WALLET),
    "GET /v1/account": account.account(),
    "PATCH /v1/account/keys/{keyId}": account.cap_key(3, 100),
    "POST /v1/account/credits/deposit": account.deposit(TOKEN, 10),
    "POST /v1/account/credits/withdraw": account.withdraw(10),
    "GET /v1/account/wallets": account.wallets(),
    "POST /v1/account/wallets/challenge": account.wallet_challenge(WALLET),
    "POST /v1/account/wallets": account.link_wallet(WALLET, "text", SIGNATURE),
    "DELETE /v1/account/wallets/{wallet}": account.unlink_wallet(WALLET),
    "GET /v1/account/payments": account.payments().call_at(None),
    "GET /v1/groups": account.watchlists(),
    "POST /v1/groups": account.make_watchlist("Dogs"),
    "GET /v1/groups/{groupId}": account.watchlist(7),
    "PATCH /v1/groups/{groupId}": account.rename_watchlist(7, "Cats"),
    "DELETE /v1/groups/{groupId}": account.delete_watchlist(7),
    "PUT /v1/groups/{groupId}/mints/{mint}": account.watch(7, MINT),
    "DELETE /v1/groups/{groupId}/mints/{mint}": account.unwatch(7, MINT),
    "GET /v1/signals": account.signals(),
    "POST /v1/signals": account.make_signal("high", MINT, "price.usd", "above", level=200.0),
    "GET /v1/signals/{signalId}": account.signal(7),
    "PATCH /v1/signals/{signalId}": account.change_signal(7, level=3.0, is_active=False),
    "DELETE /v1/signals/{signalId}": account.delete_signal(7),
    "GET /v1/signals/{signalId}/events": account.signal_events(7).call_at(None),
    "POST /v1/signals/{signalId}/secret": account.renew_signal_secret(7),
    "POST /v1/signals/{signalId}/test": account.test_signal(7),
    "GET /v1/me": account.me(),
    "POST /v1/me/key/rotate": account.rotate_key("24h"),
    "DELETE /v1/me/key": account.revoke_key(),
    "POST /v1/me/key/scopes": account.ask_for_scopes(["trade:write"], "To buy."),
    "POST /api/public/beta-signup": account.sign_up(
        EMAIL, "To trade.", scopes=["trade:write"], telegram="@agent"
    ),
    "POST /api/auth/confirm-email": account.confirm_email(EMAIL, SECRET, "12345678"),
    "POST /api/auth/application-status": account.application_status(EMAIL, SECRET),
    "POST /api/auth/exchange-secret": account.exchange_secret(EMAIL, SECRET),
}


SAID_BY_STATUS = ("success", "status")  # of answers without an envelope
# How to pay, which a 402 says: no line of a batch is one.
NOT_READ = {
    "BatchReports.results[].error.details: is lost",
    "PastPrices.prices[].error.details: is lost",
    "TokensBacktest.tokens[].error.details: is lost",
}


class Shape:
    """A schema with where its references lead."""

    def __init__(self, schema: dict[str, Any], references: dict[str, Any]) -> None:
        while "$ref" in schema:
            schema = references[schema["$ref"].rpartition("/")[2]]
        self.schema, self.references = schema, references

    def variants(self) -> Iterator["Shape"]:
        """Yield its variants."""
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
    """Yield parts of *theirs* that would not be read, or be lost, as *ours*."""
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


@pytest.mark.parametrize("route", CALLS)
async def test_each_field_is_read_as_it_is_described(service: Service, route: str) -> None:
    document = (await service.client.get("/openapi.json")).json()
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


def test_a_call_is_sent_where_the_service_listens() -> None:
    for route, call in CALLS.items():
        method, path = route.split()
        for name, value in PLACES.items():
            path = path.replace(f"{{{name}}}", value)
        assert (call.method, call.path) == (method, path)


async def test_there_is_a_call_of_everything_that_the_service_has(service: Service) -> None:
    paths = (await service.client.get("/openapi.json")).json()["paths"]
    served = {f"{verb.upper()} {path}" for path, verbs in paths.items() for verb in verbs}

    assert served - NO_CALLS == set(CALLS)


@pytest.mark.parametrize("route", [route for route, call in CALLS.items() if call.body])
async def test_each_body_is_one_that_is_described(service: Service, route: str) -> None:
    document = (await service.client.get("/openapi.json")).json()
    method, path = route.split()
    body = document["paths"][path][method.lower()]["requestBody"]
    schema = body["content"]["application/json"]["schema"] | {"components": document["components"]}

    validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
        jsonschema.Draft202012Validator, {"pattern": lambda *_: None}
    )
    validator(schema).validate(msgspec.json.decode(CALLS[route].body))


@pytest.mark.parametrize("route", list(CALLS))
async def test_each_query_is_one_that_is_described(service: Service, route: str) -> None:
    document = (await service.client.get("/openapi.json")).json()
    method, path = route.split()
    described = document["paths"][path][method.lower()].get("parameters", ())
    names = {each["name"] for each in described if each["in"] == "query"}

    assert {name for name, _ in CALLS[route].query} <= names
    takes_key = any(each["name"] == "Idempotency-Key" for each in described)
    assert CALLS[route].takes_key <= takes_key


def test_both_clients_and_their_raw_twins_have_every_call() -> None:
    named = {name for name, each in vars(account).items() if _is_call(each)}
    for kind in (Client, AsyncClient):
        assert named <= set(dir(kind)), kind
    paged = {"payments", "signal_events"}
    for raw in (RawResponses, AsyncRawResponses):
        assert named - paged <= set(dir(raw)), raw


def _is_call(each: object) -> bool:
    return (
        inspect.isfunction(each)
        and each.__module__ == account.__name__
        and not each.__name__.startswith("_")
    )
