"""The files that directories ask for, made of what the service says of itself.

Source    pay.sh: solana-foundation/pay-skills, CONTRIBUTING.md
          MCP registry: server.schema.json of 2025-12-11
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from mintscope import __version__

PAY_DESCRIPTION: Final = (
    "Solana token analytics by mint address: price in USD and SOL, RSI, EMA, MACD, Fibonacci"
    " levels, buy and sell pressure, candles, indicator series and swaps, computed from every swap"
    " on chain. Errors cost nothing."
)
PAY_USE_CASE: Final = (
    "Use for the price of a Solana token, technical indicators such as RSI, EMA, MACD, Bollinger"
    " bands, ATR and VWAP, OHLC candles, recent swaps, buy and sell pressure, screening tokens and"
    " trading signals."
)
MCP_DESCRIPTION: Final = (
    "Solana token prices, RSI, EMA, MACD, candles and swaps; paid by credit or x402."
)
MCP_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
CREDENTIAL: Final = (
    "`Bearer` and a credit token (svc_credit_...) or an API key (svc_live_...). Not needed to list"
    " tools, to search tokens, or to pay by x402."
)
PROSE: Final = """\
{title} follows tokens on Solana and answers by mint address. Search tokens with `GET /v1/tokens`,
which is free. `x-payment-info` in openapi.json says what every other call costs.

## Spend-aware usage

- One report has every timeframe: ask for it once, not once for each.
- Send its `ETag` back with a credit token: an unchanged report is 304, and free.
- For many calls buy credits, `POST /v1/credits/purchase?bundle=10`: up to 40 % cheaper, and no
  chain is waited for.
- A page of candles, of indicators or of swaps costs the same however long it is: ask for it whole.
- No answer of 400 or above is charged.

The whole way, step by step: {origin}/llms.txt
"""


def slug_of(name: str) -> str:
    """Return *name* as a segment of a path in a registry: lower case, URL-safe."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "mintscope"


def name_of(described: Mapping[str, Any]) -> str:
    """Return the name of the service in registries, of its OpenAPI document."""
    return slug_of(str(described["info"]["title"]))


def owner_of(host: str) -> str:
    """Return what is before the end of a domain: `example` of `api.example.org`."""
    return host.split(".")[-2:][0]


def namespace_of(host: str) -> str:
    """Return the namespace that the owner of *host* can prove: its name, backwards."""
    return ".".join(reversed(host.split(".")))


def write_pay(origin: str, described: Mapping[str, Any]) -> str:
    """Return PAY.md, of a service whose OpenAPI document is *described*."""
    title = str(described["info"]["title"])
    fields = {
        "name": name_of(described),
        "title": title,
        "description": PAY_DESCRIPTION,
        "use_case": PAY_USE_CASE,
        "category": "finance",
        "service_url": origin,
        "version": "v1",
    }
    # A text of JSON is one of YAML.
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    head = "\n".join(["---", *lines, "openapi:", "  path: openapi.json", "---"])
    return head + "\n\n" + PROSE.format(title=title, origin=origin)


def write_server(
    origin: str, described: Mapping[str, Any], namespace: str, icon: str | None
) -> str:
    """Return server.json for the MCP registry; *icon* is where one is."""
    title = str(described["info"]["title"])
    header = {
        "name": "Authorization",
        "description": CREDENTIAL,
        "isRequired": False,
        "isSecret": True,
        "placeholder": "Bearer svc_credit_...",
    }
    document: dict[str, Any] = {
        "$schema": MCP_SCHEMA,
        "name": f"{namespace}/{name_of(described)}",
        "title": title,
        "description": MCP_DESCRIPTION,
        "version": __version__,
        "websiteUrl": origin,
        "remotes": [{"type": "streamable-http", "url": f"{origin}/mcp", "headers": [header]}],
    }
    if icon is not None:
        document["icons"] = [{"src": icon, "mimeType": "image/svg+xml", "sizes": ["any"]}]
    return json.dumps(document, indent=2) + "\n"
