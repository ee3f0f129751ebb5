"""GET /v1/tokens: the fields, the order, the pages and the search of the list of tokens."""

from base64 import urlsafe_b64encode
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mintscope.kit.primitives import Mint, UnixMs
from mintscope.market.log import PricedSwap
from mintscope.market.mint_facts import MintFacts, ScaledUiAmount
from mintscope.market.screening.listed import Sort
from mintscope.solana.blocks import USDC, USDT, WSOL
from support.fakes.facts import FACTS
from support.scenes.service import NOW, Service

PATH: Final = "/v1/tokens"
START: Final = NOW // 1000 - 200_000
NAMES: Final = {WSOL: ("Wrapped SOL", "SOL"), USDC: ("USD Coin", "USDC"), USDT: ("Tether", "USDT")}


def facts_of(name: str | None, symbol: str | None, **others: Any) -> MintFacts:
    return replace(FACTS, name=name, symbol=symbol, read_at_ms=UnixMs(NOW), **others)


def swap(mint: Mint, usd: float | None, micro_usd: int = 5_000_000) -> PricedSwap:
    sol = None if usd is None else usd / 100
    return PricedSwap(mint, 0, 0, -1, 0, True, micro_usd, usd, sol, "pool")  # noqa: FBT003


@pytest.fixture
async def listed(service: Service) -> Service:
    """Return a service that lists three tokens, each a minute younger than the one before."""
    market = service.market
    for n, (mint, names) in enumerate(NAMES.items()):
        await market.append(n, START + 60 * n)
        await market.track(mint)
        await market.learn(mint, facts_of(*names, supply=10**9))
    await market.append(10, START + 1_000, swap(WSOL, 80.0), swap(USDC, 1.0))
    await market.append(11, START + 100_000, swap(WSOL, 100.0), swap(USDC, 1.0, 9_000_000))
    await service.lister.refresh()
    return service


async def tokens(service: Service, query: str = "") -> list[dict[str, Any]]:
    response = await service.client.get(f"{PATH}?{query}")
    assert response.status_code == 200, response.text
    found: list[dict[str, Any]] = response.json()["data"]["tokens"]
    return found


async def symbols(service: Service, query: str = "") -> list[str]:
    return [token["symbol"] for token in await tokens(service, query)]


async def test_a_listed_token_has_every_field(listed: Service) -> None:
    response = await listed.client.get(f"{PATH}?sort=price&limit=1")

    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert set(body) == {"success", "data", "meta"}
    assert set(body["data"]) == {"tokens", "slot", "asOf", "nextCursor"}
    assert (body["data"]["slot"], body["data"]["asOf"]) == (11, START + 100_000)
    assert body["data"]["tokens"] == [
        {
            "mint": WSOL,
            "name": "Wrapped SOL",
            "symbol": "SOL",
            "decimals": 6,
            "price": {
                "usd": 100.0,
                "sol": 1.0,
                "pool": None,
                "ageMs": None,
                "liquidityUsd": None,
                "pools": 0,
                "confidence": "low",
                "rejectedShareH1": None,
            },
            "change": {"m5": 0.25, "h1": 0.25, "d1": 0.25},
            "volumeUsdD1": 5.0,
            "swapsD1": 1,
            "marketCapUsd": 100_000.0,
            "readyTimeframes": [],
            "trackedSince": START,
            "ageS": 100_000,
            "uiMultiplier": None,
            "changeSince": None,
            "nameCleaned": False,
            "lookAlikeOf": None,
        }
    ]


async def test_the_daily_change_of_a_younger_token_is_since_its_first_price(
    listed: Service,
) -> None:
    mint = Mint("9" * 44)
    await listed.market.track(mint)
    first, later = START + 100_030, START + 100_400
    slot = 1_000
    await listed.market.append(slot, first, swap(mint, 2.0), swap(mint, 4.0))
    await listed.market.append(slot + 1, later, swap(mint, 3.0))
    await listed.lister.refresh()
    (token,) = await tokens(listed, "query=999")

    assert token["change"] == {"m5": -0.25, "h1": None, "d1": 0.5}
    assert token["changeSince"] == first // 60 * 60

    await listed.market.append(slot + 2, later + 90_000, swap(mint, 6.0))
    await listed.lister.refresh()
    (token,) = await tokens(listed, "query=999")
    assert (token["change"]["d1"], token["changeSince"]) == (1.0, None)


async def test_a_look_alike_of_a_larger_token_is_marked_in_list_and_metadata(
    listed: Service,
) -> None:
    market = listed.market
    imitations = {
        Mint("9" * 44): ("A name", "U\u200bSDC"),
        Mint("8" * 44): ("USD \u0421oin", "C0IN"),
        Mint("7" * 44): ("Another", "US\u216eC"),  # a Roman numeral
        Mint("6" * 44): ("Another", "USDD"),
    }
    for mint, names in imitations.items():
        await market.track(mint)
        await market.learn(mint, facts_of(*names))
        await market.append(100 + len(names[0]), START + 100_010, swap(mint, 2.0, 1_000_000))
    await listed.lister.refresh()
    found = {each["mint"]: each for each in await tokens(listed)}

    assert [found[mint]["lookAlikeOf"] for mint in imitations] == [USDC, USDC, USDC, None]
    assert [found[mint]["nameCleaned"] for mint in imitations] == [True, False, False, False]
    assert found[USDC]["lookAlikeOf"] is None
    path = "/v1/token/{}/metadata"
    for mint in imitations:
        reported = (await listed.client.get(path.format(mint))).json()["data"]
        for field in ("lookAlikeOf", "nameCleaned"):
            assert reported[field] == found[mint][field]
        words = " ".join(reported["inWords"])
        assert (f"looks like that of {USDC}" in words) == (reported["lookAlikeOf"] is not None)
        assert ("characters that are never shown" in words) == reported["nameCleaned"]


async def test_the_multiplier_is_that_at_the_time_of_the_list(listed: Service) -> None:
    """The price is not multiplied: it is the price of one unscaled token."""
    for later, begins, expected in ((1, START + 100_000, 3.0), (2, START + 100_001, 2.0)):
        scaled = ScaledUiAmount(multiplier=2.0, new_multiplier=3.0, effective_at=begins)
        facts = facts_of(*NAMES[WSOL], scaled_ui_amount=scaled, supply=10**9)
        await listed.market.learn(WSOL, replace(facts, read_at_ms=UnixMs(NOW + later)))
        await listed.lister.refresh()
        (token,) = await tokens(listed, "sort=price&limit=1")

        assert token["uiMultiplier"] == expected
        assert (token["price"]["usd"], token["price"]["sol"]) == (100.0, 1.0)


async def test_unknown_fields_are_null(listed: Service) -> None:
    await listed.market.track(Mint("8" * 44))
    await listed.lister.refresh()
    token = (await tokens(listed, "query=888"))[0]

    unknown = {
        *("name", "symbol", "decimals", "price", "marketCapUsd", "uiMultiplier", "changeSince"),
        "lookAlikeOf",
    }
    assert {name for name, value in token.items() if value is None} == unknown
    assert token["change"] == {"m5": None, "h1": None, "d1": None}
    assert (token["volumeUsdD1"], token["swapsD1"], token["ageS"]) == (0.0, 0, 0)


async def test_the_list_is_sorted_with_tokens_without_a_value_last(listed: Service) -> None:
    orders = {
        "": ["USDC", "SOL", "USDT"],
        "sort=volume&order=asc": ["USDT", "SOL", "USDC"],
        "sort=price": ["SOL", "USDC", "USDT"],
        "sort=price&order=asc": ["USDC", "SOL", "USDT"],
        "sort=change": ["SOL", "USDC", "USDT"],
        "sort=change&order=asc": ["USDC", "SOL", "USDT"],
        "sort=age": ["SOL", "USDC", "USDT"],
        "sort=age&order=asc": ["USDT", "USDC", "SOL"],
        "sort=pressure_h1": ["USDC", "SOL", "USDT"],
        "sort=pressure_h1&order=asc": ["SOL", "USDC", "USDT"],
    }
    assert {query: await symbols(listed, query) for query in orders} == orders


@pytest.mark.parametrize("sort", Sort)
async def test_pages_of_each_sort_have_every_token_once(listed: Service, sort: Sort) -> None:
    found: list[str] = []
    query = f"sort={sort}&limit=1"
    while len(found) < len(NAMES):
        data = (await listed.client.get(f"{PATH}?{query}")).json()["data"]
        found += [token["mint"] for token in data["tokens"]]
        query = f"sort={sort}&limit=1&cursor={data['nextCursor']}"
    assert set(found) == set(NAMES)
    assert data["nextCursor"] is None


async def test_a_query_finds_parts_of_names_in_any_case_and_the_start_of_a_mint(
    listed: Service,
) -> None:
    found = {
        "wrapped": ["SOL"],
        "USD": ["USDC", "USDT"],
        "ether": ["USDT"],
        "sd%20co": ["USDC"],
        WSOL[:5]: ["SOL"],
        WSOL: ["SOL"],
        WSOL[:5].lower(): [],
        WSOL[1:5]: [],
        "solusd": [],
        "%E2%80%AEusd%0A": ["USDC", "USDT"],
        "%20": ["USDC", "SOL", "USDT"],
        "x" * 64: [],
    }
    assert {query: await symbols(listed, f"query={query}") for query in found} == found


async def test_names_are_shown_without_control_and_direction_characters(
    listed: Service,
) -> None:
    name = "\u202egnp.nioc\u202c\u200b \x1b[31m\u2066Coin\n\u00a0 x\ud83d\ude80"
    facts = facts_of(name.encode("utf-16", "surrogatepass").decode("utf-16"), "\u200f")
    await listed.market.learn(WSOL, replace(facts, read_at_ms=UnixMs(NOW + 1)))
    await listed.lister.refresh()
    (token,) = await tokens(listed, f"query={WSOL}")

    assert (token["name"], token["symbol"]) == ("gnp.nioc [31mCoin x🚀", None)
    assert await symbols(listed, "query=gnp.nioc%20%5B31mcoin") == [None]


async def test_pages_hold_each_token_once(listed: Service) -> None:
    cursor = ""
    for symbol in ("USDC", "SOL", "USDT"):
        data = (await listed.client.get(f"{PATH}?limit=1&cursor={cursor}")).json()["data"]
        assert [token["symbol"] for token in data["tokens"]] == [symbol]
        cursor = data["nextCursor"]

    assert cursor is None


async def test_the_next_page_continues_after_a_token_whose_value_has_changed(
    listed: Service,
) -> None:
    """The tokens that kept their place are neither missed nor repeated."""
    first = (await listed.client.get(f"{PATH}?limit=1")).json()["data"]
    assert [token["symbol"] for token in first["tokens"]] == ["USDC"]
    await listed.market.append(12, START + 100_001, swap(USDC, 1.0, 77_000_000))
    await listed.lister.refresh()

    rest = await symbols(listed, f"cursor={first['nextCursor']}")
    assert rest == ["SOL", "USDT"]


async def test_an_invalid_query_is_400(listed: Service) -> None:
    for query in (
        "sort=name",
        "order=up",
        "limit=0",
        "limit=101",
        "limit=x",
        "page=2",
        "query=a&query=b",
        "query=" + "x" * 65,
        "cursor=x",
        "cursor=" + urlsafe_b64encode(b'{"type":"other","mint":""}').decode(),
    ):
        response = await listed.client.get(f"{PATH}?{query}")
        assert (response.status_code, response.json()["error"]["code"]) == (400, "BAD_REQUEST")


async def test_the_cursor_of_another_list_is_400(listed: Service) -> None:
    cursor = (await listed.client.get(f"{PATH}?limit=1")).json()["data"]["nextCursor"]
    for other in ("sort=price", "order=asc", "query=S"):
        response = await listed.client.get(f"{PATH}?limit=1&cursor={cursor}&{other}")
        assert response.status_code == 400
        assert "nextCursor" in response.json()["error"]["message"]


async def test_the_list_is_503_while_it_is_loaded(service: Service) -> None:
    response = await service.client.get(PATH)

    assert response.status_code == 503
    assert response.json()["error"]["code"] == "SERVICE_UNAVAILABLE"
    assert "retry-after" in response.headers


async def test_the_list_is_free_and_has_a_limit_of_its_own(listed: Service) -> None:
    for _ in range(60):
        response = await listed.client.get(PATH)
        assert response.headers["ratelimit-policy"] == '"lists";q=60;w=60'
    refused = await listed.client.get(PATH)

    assert refused.status_code == 429
    assert (await listed.client.get("/v1/credits/balance")).status_code == 401
