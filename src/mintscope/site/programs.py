"""Examples of each endpoint in curl, Python, TypeScript and MCP, which run unchanged.

tests/docs/test_docs_programs.py extracts the examples from the pages and runs them.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from mintscope.site.reference import AN_API_KEY, JSON_TYPE, DescribedEndpoint
from mintscope.solana.blocks import WSOL

CREDENTIAL: Final = "MINTSCOPE_CREDENTIAL"
API_KEY: Final = "MINTSCOPE_API_KEY"
STREAM: Final = "text/event-stream"
# Queries of examples that have more than the required parameters.
QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "get-token-candles": {"tf": "m5", "limit": "100"},
    "get-token-indicators": {"tf": "m5", "names": "rsi,macd"},
    "get-token-swaps": {"limit": "50"},
    "get-tokens": {"sort": "volume", "limit": "10"},
    "get-screen": {"where": "price > 0", "limit": "10"},
}
# Examples for the client libraries, in Python and in TypeScript; both use `client`.
CLIENTS: Final[Mapping[str, tuple[str, str]]] = {
    "get-token": (
        """\
report = client.token("{mint}")
print(report.price.usd, report.indicators.m5.rsi)""",
        """\
const report = await client.token("{mint}");
console.log(report.price.usd, report.indicators.m5.rsi);""",
    ),
    "post-tokens-batch": (
        """\
batch = client.batch(["{mint}"])
for line in batch.results:
    print(line.token, line.report or line.error)""",
        """\
const batch = await client.batch(["{mint}"]);
for (const line of batch.results) console.log(line.token, line.report ?? line.error);""",
    ),
    "get-token-candles": (
        """\
page = client.candles("{mint}", "m5", limit=100).first()
for candle in page.candles:
    print(candle.t, candle.o, candle.h, candle.l, candle.c)""",
        """\
const page = await client.candles("{mint}", "m5", {{ limit: 100 }}).first();
for (const {{ t, o, h, l, c }} of page.candles) console.log(t, o, h, l, c);""",
    ),
    "get-token-indicators": (
        """\
page = client.indicators("{mint}", "m5", names=["rsi", "macd"]).first()
for point in page.points:
    print(point.t, point.rsi, point.macd)""",
        """\
const names = ["rsi", "macd"];
const page = await client.indicators("{mint}", "m5", {{ names }}).first();
for (const point of page.points) console.log(point.t, point.rsi, point.macd);""",
    ),
    "get-token-swaps": (
        """\
page = client.swaps("{mint}", limit=50).first()
for swap in page.swaps:
    print(swap.t, swap.side, swap.token_amount.decimal)""",
        """\
const page = await client.swaps("{mint}", {{ limit: 50 }}).first();
for (const swap of page.swaps) console.log(swap.t, swap.side, swap.tokenAmount.decimal);""",
    ),
    "get-stream": (
        """\
for live in client.stream(["{mint}"]):
    print(live.slot, live.report.price.usd)
    break  # or stay: it goes on as long as there are credits""",
        """\
for await (const live of client.stream(["{mint}"])) {{
  console.log(live.slot, live.report.price.usd);
  break; // or stay: it goes on as long as there are credits
}}""",
    ),
    "get-tokens": (
        """\
page = client.tokens(sort="volume", limit=10).first()
for token in page.tokens:
    print(token.symbol, token.mint, token.volume_usd_d1)""",
        """\
const page = await client.tokens({{ sort: "volume", limit: 10 }}).first();
for (const token of page.tokens) console.log(token.symbol, token.mint, token.volumeUsdD1);""",
    ),
    "get-token-pools": (
        """\
for pool in client.pools("{mint}").pools:
    print(pool.venue, pool.quote_usd, pool.moves)""",
        """\
const {{ pools }} = await client.pools("{mint}");
for (const pool of pools) console.log(pool.venue, pool.quoteUsd, pool.moves);""",
    ),
    "post-prices": (
        """\
for line in client.past_prices([("{mint}", 1_763_460_000)]).prices:
    print(line.token, line.price or line.error)""",
        """\
const {{ prices }} = await client.pastPrices([{{ mint: "{mint}", t: 1763460000 }}]);
for (const line of prices) console.log(line.token, line.price ?? line.error);""",
    ),
    "get-token-backtest": (
        """\
found = client.backtest("{mint}", "crosses_below(rsi_m5, 30)", tf="m5")
print(found.looks, found.fired)
for horizon in found.horizons:
    print(horizon.after, horizon.hit_rate, horizon.all_hit_rate)""",
        """\
const found = await client.backtest("{mint}", "crosses_below(rsi_m5, 30)", {{ tf: "m5" }});
console.log(found.looks, found.fired);
for (const each of found.horizons) console.log(each.after, each.hitRate, each.allHitRate);""",
    ),
    "post-backtest": (
        """\
found = client.backtest_tokens(["{mint}"], "crosses_below(rsi_m5, 30)", tf="m5")
print(found.candles, found.looks, found.fired)
for line in found.tokens:
    print(line.token, line.fired)""",
        """\
const found = await client.backtestTokens(["{mint}"], "crosses_below(rsi_m5, 30)");
console.log(found.candles, found.looks, found.fired);
for (const line of found.tokens) console.log(line.token, line.fired);""",
    ),
    "get-token-traders": (
        """\
page = client.traders("{mint}", limit=10)
print(page.kept.buyers, page.kept.sellers)
for trader in page.traders:
    print(trader.trader, trader.bought_usd, trader.sold_usd, trader.realised_usd)""",
        """\
const page = await client.traders("{mint}", {{ limit: 10 }});
console.log(page.kept.buyers, page.kept.sellers);
for (const each of page.traders) console.log(each.trader, each.boughtUsd, each.realisedUsd);""",
    ),
    "get-token-holders": (
        """\
page = client.holders("{mint}")
print(page.supply_without_burned.decimal, page.top20_share)
for holder in page.holders:
    print(holder.owner, holder.share, holder.kind, holder.name)""",
        """\
const page = await client.holders("{mint}");
console.log(page.supplyWithoutBurned.decimal, page.top20Share);
for (const each of page.holders) console.log(each.owner, each.share, each.kind, each.name);""",
    ),
    "get-screen": (
        """\
page = client.screen("price > 0", fields=["price", "rsi_h1"], limit=10).first()
for token in page.tokens:
    print(token.symbol, token.mint, token.values)""",
        """\
const asked = {{ fields: ["price", "rsi_h1"], limit: 10 }};
const page = await client.screen("price > 0", asked).first();
for (const token of page.tokens) console.log(token.symbol, token.mint, token.values);""",
    ),
    "get-token-metadata": (
        """\
facts = client.metadata("{mint}")
print(facts.name, facts.supply, *facts.in_words, sep="\\n")""",
        """\
const facts = await client.metadata("{mint}");
console.log(facts.name, facts.supply, facts.inWords);""",
    ),
    "get-credits-bundles": (
        """\
for bundle in client.bundles().bundles:
    print(bundle.credits, bundle.price_usd, bundle.discount)""",
        """\
const {{ bundles }} = await client.bundles();
for (const bundle of bundles) console.log(bundle.credits, bundle.priceUsd, bundle.discount);""",
    ),
    "get-credits-balance": (
        "print(client.balance())",
        "console.log(await client.balance());",
    ),
    "get-credits-history": (
        """\
for entry in client.history().entries:
    print(entry.at, entry.kind, entry.credits)""",
        """\
const {{ entries }} = await client.history();
for (const entry of entries) console.log(entry.at, entry.kind, entry.credits);""",
    ),
}  # fmt: skip
# The MCP tool of each endpoint that has one, and example arguments.
TOOLS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "get-tokens": ("search_tokens", {"sort": "volume", "limit": 10}),
    "get-screen": ("screen_tokens", {"where": "liquidity > 100000 and rsi_h1 < 30"}),
    "get-token": ("get_token", {"mint": WSOL}),
    "get-token-candles": ("get_candles", {"mint": WSOL, "tf": "m5", "limit": 100}),
    "get-token-indicators": ("get_indicators", {"mint": WSOL, "tf": "m5", "names": ["rsi"]}),
    "get-token-swaps": ("get_swaps", {"mint": WSOL, "limit": 50}),
    "get-token-pools": ("get_pools", {"mint": WSOL}),
    "get-token-backtest": ("backtest", {"mint": WSOL, "where": "crosses_below(rsi_m5, 30)"}),
    "get-token-traders": ("get_traders", {"mint": WSOL}),
    "get-token-holders": ("get_holders", {"mint": WSOL}),
    "post-signals": (
        "create_alert",
        {"mint": WSOL, "where": "crosses_below(rsi_h1, 30)", "name": "SOL is cheap"},
    ),
    "get-credits-balance": ("get_balance", {}),
    "post-credits-purchase": ("buy_credits", {"bundle": 10}),
}


@dataclass(frozen=True, slots=True)
class ExampleProgram:
    """An example: its language, its title on the page, and its text."""

    language: str
    title: str
    text: str


def programs_of(endpoint: DescribedEndpoint, origin: str) -> Iterator[ExampleProgram]:
    """Yield an example of *endpoint* for each language, and the call of its MCP tool, if any."""
    yield ExampleProgram("sh", "curl", _curl(endpoint, origin))
    client = CLIENTS.get(endpoint.slug)
    if client is None:
        yield ExampleProgram("python", "Python", _httpx(endpoint, origin))
        yield ExampleProgram("ts", "TypeScript", _fetch(endpoint, origin))
    else:
        name = _variable(endpoint)
        python, typescript = (text.format(mint=WSOL) for text in client)
        yield ExampleProgram("python", "Python", _python(python, origin, name))
        yield ExampleProgram("ts", "TypeScript", _typescript(typescript, origin, name))
    if endpoint.slug in TOOLS:
        tool, arguments = TOOLS[endpoint.slug]
        call = {"name": tool, "arguments": arguments}
        yield ExampleProgram("json", "MCP", json.dumps(call, indent=2))


def address_of(endpoint: DescribedEndpoint, origin: str) -> str:
    """Return the address of an example request, built from the examples of its parameters."""
    path = endpoint.path
    for each in endpoint.parameters.get("path", ()):
        path = path.replace(f"{{{each.name}}}", each.example)
    needed = {
        each.name: each.example
        for each in endpoint.parameters.get("query", ())
        if not each.is_optional
    }
    query = urlencode(QUERIES.get(endpoint.slug, needed), safe=",")
    return f"{origin}{path}?{query}" if query else f"{origin}{path}"


def _variable(endpoint: DescribedEndpoint) -> str:
    """Return the environment variable of the credential, or "" if no credential is needed."""
    if not endpoint.proofs:
        return ""
    return API_KEY if endpoint.proofs == (AN_API_KEY,) else CREDENTIAL


def _curl(endpoint: DescribedEndpoint, origin: str) -> str:
    method = "" if endpoint.method == "GET" else f"-X {endpoint.method} "
    unbuffered = "N" if endpoint.media_type == STREAM else ""
    lines = [f'curl -s{unbuffered} {method}"{address_of(endpoint, origin)}"']
    name = _variable(endpoint)
    if name:
        lines.append(f'-H "Authorization: Bearer ${name}"')
    if endpoint.needs_body:
        lines += [f'-H "Content-Type: {JSON_TYPE}"', f"-d '{_compact(endpoint)}'"]
    return " \\\n  ".join(lines)


def _python(body: str, origin: str, name: str) -> str:
    credential = f', credential=os.environ["{name}"]' if name else ""
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    return (
        ("import os\n\n" if name else "")
        + f'from mintscope_client import Client\n\nwith Client("{origin}"{credential}) as client:\n'
        + indented
    )


def _typescript(body: str, origin: str, name: str) -> str:
    options = f", {{ credential: process.env.{name} }}" if name else ""
    return (
        'import { Client } from "mintscope-client";\n\n'
        f'const client = new Client("{origin}"{options});\n{body}'
    )


def _httpx(endpoint: DescribedEndpoint, origin: str) -> str:
    name = _variable(endpoint)
    lines = [f'    "{endpoint.method}",', f'    "{address_of(endpoint, origin)}",']
    if name:
        lines.append(f'    headers={{"Authorization": f"Bearer {{os.environ[\'{name}\']}}"}},')
    if endpoint.needs_body:
        lines.append(f"    json={json.loads(endpoint.body_example)!r},".replace("'", '"'))
    call = "\n".join(["answer = httpx.request(", *lines, ")"])
    shown = "answer.json()" if endpoint.media_type == JSON_TYPE else "answer.text"
    imports = "import os\n\nimport httpx" if name else "import httpx"
    return f"{imports}\n\n{call}\nprint(answer.status_code, {shown})"


def _fetch(endpoint: DescribedEndpoint, origin: str) -> str:
    name = _variable(endpoint)
    headers = [f"    Authorization: `Bearer ${{process.env.{name}}}`,"] if name else []
    if endpoint.needs_body:
        headers.append(f'    "Content-Type": "{JSON_TYPE}",')
    options = [] if endpoint.method == "GET" else [f'  method: "{endpoint.method}",']
    if headers:
        options += ["  headers: {", *headers, "  },"]
    if endpoint.needs_body:
        options.append(f"  body: JSON.stringify({_compact(endpoint)}),")
    second = "\n".join([", {", *options, "}"]) if options else ""
    shown = "json" if endpoint.media_type == JSON_TYPE else "text"
    return (
        f'const answer = await fetch("{address_of(endpoint, origin)}"{second});\n'
        f"console.log(answer.status, await answer.{shown}());"
    )


def _compact(endpoint: DescribedEndpoint) -> str:
    return json.dumps(json.loads(endpoint.body_example))
