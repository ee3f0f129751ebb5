"""Documentation pages: guides, endpoints, definitions, changelog.

Includes the programs of the guide about alerts, which tests/docs/test_alert_guide.py runs.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final, NamedTuple

from mintscope import __version__
from mintscope.kit.errors import NotFound
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.site.definitions import DEFINITIONS
from mintscope.site.page import Markdown, Page, PageResponse, PlainText
from mintscope.site.programs import ExampleProgram, programs_of
from mintscope.site.reference import DescribedEndpoint, Reference
from mintscope.site.routes import PageHandler, PageRequest, PageRoute, get
from mintscope.solana.blocks import WSOL

RULE: Final = """\
curl -s -X POST {origin}/v1/signals \\
  -H "Authorization: Bearer $MINTSCOPE_API_KEY" -H "content-type: application/json" \\
  -d '{"name": "RSI of SOL", "mint": "{mint}",
       "field": "indicators.h1.rsi", "kind": "crosses", "level": 30, "margin": 1,
       "webhookUrl": "https://example.org/hooks/mintscope"}'"""
HOOK_PYTHON: Final = """\
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks import Webhook, WebhookVerificationError

webhook = Webhook(os.environ["MINTSCOPE_WEBHOOK_SECRET"])

class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            event = webhook.verify(body, dict(self.headers))
        except WebhookVerificationError:
            return self.send_error(400)
        self.send_response(204)
        self.end_headers()
        name = self.headers["webhook-id"]
        data = event["data"]
        print(name, data["field"], data["direction"], data["value"], flush=True)

HTTPServer(("127.0.0.1", int(os.environ.get("PORT", "8000"))), Hook).serve_forever()"""
HOOK_TYPESCRIPT: Final = """\
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

type Event = { data: { field: string; direction: "up" | "down"; value: number } };
const webhook = new Webhook(process.env.MINTSCOPE_WEBHOOK_SECRET!);

createServer(async (request, response) => {
  let body = "";
  for await (const part of request.setEncoding("utf8")) body += part;
  const headers = request.headers as Record<string, string>;
  try {
    const { data } = webhook.verify(body, headers) as Event;
    response.writeHead(204).end();
    console.log(headers["webhook-id"], data.field, data.direction, data.value);
  } catch {
    response.writeHead(400).end();
  }
}).listen(Number(process.env.PORT ?? 8000), "127.0.0.1");"""


class Guide(NamedTuple):
    """A guide: its address segment, its title and its subject."""

    slug: str
    title: str
    about: str


GUIDES: Final = (
    Guide("start", "From nothing to the first call", "An answer in two minutes, in your language."),
    Guide("buying", "Buying credits", "Bundles, wallets, accounts, and what becomes of a payment."),
    Guide("x402", "How x402 works", "Paying by the request, without an account, in words."),
    Guide(
        "alerts", "Alerts by webhook", "Get notified when RSI crosses 30, and check the signature."
    ),
    Guide("errors", "Errors are free", "Errors that are never charged, and when to retry."),
    Guide("freshness", "How fresh the data is", "Slots, ages, unchanged answers and streams."),
    Guide("clients", "Clients and MCP", "Python, TypeScript, the command line, and agents."),
)
BUYING: Final = """\
from decimal import Decimal
from pathlib import Path

from mintscope_client import Client
from mintscope_client.auth import PaymentAuth
from mintscope_client.keypair import read_keypair
from mintscope_client.wallet import PayerWallet, Pin, SpendLimit

pin = Pin(
    network="solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",  # mainnet
    asset="MINT_OF_THE_PAYMENT_TOKEN",
    decimals=6,
    pay_to="WALLET_OF_THE_SELLER",
    usd_per_token=Decimal(1),
)
wallet = PayerWallet(
    keypair=read_keypair(Path("id.json")),
    pin=pin,
    limit=SpendLimit.in_usd(pin, per_payment=Decimal("0.10"), in_all=Decimal(1)),
)
payer = PaymentAuth(wallet, rpc_url="https://your-node.example")
with Client("{origin}", payer=payer) as client:
    print(client.buy_credits(10).token)"""
OFFICIAL: Final = """\
import asyncio, os, secrets
from x402 import x402Client
from x402.http.clients import x402HttpxClient
from x402.mechanisms.svm.exact.register import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

async def main():
    payer = x402Client()
    signer = KeypairSigner.from_base58(os.environ["SOLANA_PRIVATE_KEY"])
    register_exact_svm_client(payer, signer, rpc_url=os.environ.get("SOLANA_RPC_URL"))
    async with x402HttpxClient(payer, base_url="{origin}", timeout=90) as http:
        key = {"Idempotency-Key": secrets.token_hex(16)}
        answer = await http.get("/v1/token/{mint}", headers=key)
        answer.raise_for_status()
        print(answer.json()["data"]["indicators"]["m5"]["rsi"])

asyncio.run(main())"""
REPORT: Final = """\
{
  "success": true,
  "data": {
    "token": "So11111111111111111111111111111111111111112",
    "price": { "usd": 171.25, "sol": 1.0 },
    "indicators": {
      "m5": { "ema9": 171.1, "rsi": 56.3 },
      "h1": { "ema9": 170.2, "rsi": 61.8 },
      "buySellPressure": { "m5": 0.49, "h1": 0.51 }
    }
  }
}"""
ERROR: Final = """\
{
  "success": false,
  "error": {
    "code": "TOKEN_NOT_FOUND",
    "message": "This mint is not tracked here. Nothing was charged."
  },
  "meta": {
    "timestamp": "2025-11-18T10:00:00.000Z",
    "requestId": "5f0c1d2e0000002a"
  }
}"""


def facts_of(guide: Guide, origin: str) -> Mapping[str, str]:
    """Return the template values that only *guide* needs."""
    match guide.slug:
        case "buying":
            return {"buying_program": BUYING.replace("{origin}", origin)}
        case "x402":
            program = OFFICIAL.replace("{origin}", origin).replace("{mint}", WSOL)
            return {"official_program": program}
        case "alerts":
            return {
                "rule": RULE.replace("{origin}", origin).replace("{mint}", WSOL),
                "hook_python": HOOK_PYTHON,
                "hook_typescript": HOOK_TYPESCRIPT,
            }
        case "errors":
            return {"error_example": ERROR}
        case _:
            return {}


FOR_OPERATORS: Final = "For operators"  # heading of changes that the page omits


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one kind (Added, Changed, Fixed or Removed), in Markdown."""

    kind: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A version, or the next version, and its changes by kind."""

    name: str
    groups: tuple[ChangeGroup, ...]


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases with the changes that customers notice, newest first."""
    text = (files("mintscope.site") / "CHANGELOG.md").read_text()
    return tuple(Release(name, tuple(_groups(body))) for name, body in _parts(text, "## "))


def _groups(body: str) -> Iterator[ChangeGroup]:
    for kind, text in _parts(body, "### "):
        if kind == FOR_OPERATORS:
            continue
        lines = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        yield ChangeGroup(kind, tuple(" ".join(line.split()) for line in lines))


def _parts(text: str, mark: str) -> Iterator[tuple[str, str]]:
    """Yield each heading that begins with *mark*, and the text below it."""
    for part in re.split(rf"^{mark}", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        yield heading.strip(), body


MARKDOWN: Final = ".md"
# Areas whose endpoints can all be tried on the page: they are read-only, or easy to undo.
TRIED_AREAS: Final = ("Market data", "Watchlists", "Service")


class DocsPages:
    """The pages below `/docs`.

    read_reference   returns the reference of the API that this process serves
    """

    def __init__(self, read_reference: Callable[[], Reference], *, origin: str) -> None:
        self._read_reference = read_reference
        self._origin = origin
        self._programs: dict[str, tuple[ExampleProgram, ...]] = {}

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of this group."""
        yield get("/docs/guides/{guide}", self.show_guide)
        yield get("/docs/api/{endpoint}", self.show_endpoint)
        for path, show in (
            ("/docs", self.show),
            ("/docs/indicators", self.show_indicators),
            ("/docs/errors", self.show_errors),
            ("/docs/changelog", self.show_changelog),
        ):
            yield get(path, show)
            yield get(path + MARKDOWN, self._as_markdown(show))
        yield get("/docs/words.json", self.get_words)

    def _as_markdown(self, show: PageHandler) -> PageHandler:
        """Return the handler that returns the page of *show* as Markdown."""

        async def show_text(request: PageRequest) -> PageResponse:
            page = await show(request)
            assert isinstance(page, Page)
            return Markdown(page, self._origin)

        return show_text

    async def show(self, _request: PageRequest) -> PageResponse:
        """Show the index."""
        first = self._read_reference().endpoints["get-token"]
        programs = self._programs_of(first)
        return self._page("index", here="", programs_shown=programs, answer_short=REPORT)

    async def show_guide(self, request: PageRequest) -> PageResponse:
        """Show a guide, or its Markdown.  Raises NotFound."""
        slug = request.path_params["guide"].removesuffix(MARKDOWN)
        guide = next((each for each in GUIDES if each.slug == slug), None)
        if guide is None:
            raise NotFound
        first = self._programs_of(self._read_reference().endpoints["get-token"])
        facts = facts_of(guide, self._origin)
        here = f"/guides/{slug}"
        page = self._page(here[1:], here=here, guide=guide, programs_shown=first, **facts)
        return self._in_form(page, request.path_params["guide"])

    async def show_endpoint(self, request: PageRequest) -> PageResponse:
        """Show an endpoint, or its Markdown.  Raises NotFound."""
        slug = request.path_params["endpoint"]
        endpoint = self._read_reference().endpoints.get(slug.removesuffix(MARKDOWN))
        if endpoint is None:
            raise NotFound
        area = next(each for each in self._read_reference().areas if endpoint in each.endpoints)
        page = self._page(
            "endpoint",
            here=f"/api/{endpoint.slug}",
            endpoint=endpoint,
            area=area.name,
            programs_shown=self._programs_of(endpoint),
            may_be_tried=endpoint.method == "GET" or area.name in TRIED_AREAS,
        )
        return self._in_form(page, slug)

    def _in_form(self, page: Page, slug: str) -> PageResponse:
        return Markdown(page, self._origin) if slug.endswith(MARKDOWN) else page

    async def show_indicators(self, _request: PageRequest) -> PageResponse:
        """Show the meaning of each number."""
        return self._page("indicators", here="/indicators", definitions=DEFINITIONS)

    async def show_errors(self, _request: PageRequest) -> PageResponse:
        """Show all error codes."""
        return self._page("errors", here="/errors", refusals_shown=self._read_reference().refusals)

    async def show_changelog(self, _request: PageRequest) -> PageResponse:
        """Show the changes."""
        return self._page("changelog", here="/changelog", releases=releases())

    async def get_words(self, _request: PageRequest) -> PageResponse:
        """Return the search words of each page, by the page's address, for the search script."""
        words = {each.address: each.words for each in self._read_reference().endpoints.values()}
        words["/docs/indicators"] = " ".join(field for each in DEFINITIONS for field in each.fields)
        words["/docs/errors"] = " ".join(each.code for each in self._read_reference().refusals)
        return PlainText(json.dumps(words))

    def _page(self, name: str, *, here: str, **facts: Any) -> Page:
        shared = {
            "here": f"/docs{here}",
            "areas": self._read_reference().areas,
            "guides": GUIDES,
            "origin": self._origin,
            "bundles": BUNDLES,
            "request_usd": REQUEST_USD,
            "mint": WSOL,
            "wheel": f"{self._origin}/client/mintscope_client-{__version__}-py3-none-any.whl",
            "tarball": f"{self._origin}/client/mintscope-client-{__version__}.tgz",
        }
        return Page(f"docs/{name}.html", shared | facts)

    def _programs_of(self, endpoint: DescribedEndpoint) -> tuple[ExampleProgram, ...]:
        """Return the examples of *endpoint*, which are created once."""
        if endpoint.slug not in self._programs:
            self._programs[endpoint.slug] = tuple(programs_of(endpoint, self._origin))
        return self._programs[endpoint.slug]
