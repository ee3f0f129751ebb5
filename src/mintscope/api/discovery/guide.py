"""The guides for agents: /skill.md and /llms.txt.

Source    https://llmstxt.org
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import msgspec

from mintscope.api.discovery.openapi import Identity
from mintscope.api.discovery.operation import Operation
from mintscope.api.discovery.responses import Examples, schemas_of
from mintscope.api.wire import query_fields
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.solana.blocks import WSOL

MCP: Final = "/mcp"
TRIAL_PATH: Final = "/v1/trial/{tokenAddress}"

START: Final = """
## From nothing to the first RSI

Wrapped SOL, `{mint}`, is always tracked; others are found for nothing:

```sh
curl -s "{origin}/v1/tokens?query=sol&limit=5"
```
{trial}
Every way below ends with `data.indicators.m5.rsi`.

### curl and a credit token

A credit token is `svc_credit_` and 64 hex digits; its holder may spend it. Buy one as said under
x402 below, or take one that you were given.

```sh
export MINTSCOPE_CREDENTIAL=svc_credit_...
curl -s {origin}/v1/token/{mint} \\
  -H "Authorization: Bearer $MINTSCOPE_CREDENTIAL"
```

### Python

```sh
pip install {origin}{wheel}
```

```python
import os
from mintscope_client import Client

with Client("{origin}", credential=os.environ["MINTSCOPE_CREDENTIAL"]) as client:
    print(client.token("{mint}").indicators.m5.rsi)
```

### TypeScript and JavaScript

```sh
npm install {origin}{tarball}
```

```js
import {{ Client }} from "mintscope-client";

const client = new Client("{origin}", {{ credential: process.env.MINTSCOPE_CREDENTIAL }});
console.log((await client.token("{mint}")).indicators.m5.rsi);
```

Node 20 or newer, or a browser. Without it, every runtime with `fetch` will do.
"""
TRIAL: Final = """
The first reports of a day are free, without an account or a payment:

```sh
curl -s {origin}/v1/trial/{mint}
```
"""
MCP_WAY: Final = """
### MCP

Streamable HTTP at {origin}/mcp; the credit token goes into a header.

```json
{{
  "mcpServers": {{
    "mintscope": {{
      "type": "http",
      "url": "{origin}/mcp",
      "headers": {{ "Authorization": "Bearer svc_credit_..." }}
    }}
  }}
}}
```
"""
PAYING: Final = """
### x402: no account, no credit token

x402 version 2, scheme `exact`, Solana. {origin}/.well-known/x402 lists what is sold. Without
payment a request is answered 402; its header `PAYMENT-REQUIRED` is base64 of JSON with the terms,
its body says the price in words. Sign, send the same request again with `PAYMENT-SIGNATURE`, within
`maxTimeoutSeconds`. `extra.recentBlockhash` is to sign with: no node is needed for one.

```sh
pip install "x402[httpx,svm]"
```

```python
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
        # one report for {price} USD; keep the key until the answer is there
        key = {{"Idempotency-Key": secrets.token_hex(16)}}
        answer = await http.get("/v1/token/{mint}", headers=key)
        answer.raise_for_status()
        print(answer.json()["data"]["indicators"]["m5"]["rsi"])
        # or a credit token with 10 credits
        key = {{"Idempotency-Key": secrets.token_hex(16)}}
        answer = await http.post("/v1/credits/purchase?bundle=10", headers=key)
        answer.raise_for_status()
        print(answer.json()["data"]["token"])

asyncio.run(main())
```

The official clients pay known stablecoins only, up to 1 USD, unless configured otherwise
(`set_spend_controls`, `setSpendControls`): where this service sells for a token of its own alone,
name its mint there.

```sh
npm install @x402/fetch @x402/svm @solana/kit
```

```js
import {{ createKeyPairSignerFromBytes, getBase58Encoder }} from "@solana/kit";
import {{ wrapFetchWithPayment, x402Client }} from "@x402/fetch";
import {{ ExactSvmScheme }} from "@x402/svm/exact/client";

const secret = getBase58Encoder().encode(process.env.SOLANA_PRIVATE_KEY);
const signer = await createKeyPairSignerFromBytes(secret);
const rpcUrl = process.env.SOLANA_RPC_URL;
const payer = new x402Client().register("solana:*", new ExactSvmScheme(signer, {{ rpcUrl }}));
const pay = wrapFetchWithPayment(fetch, payer);
const headers = {{ "Idempotency-Key": crypto.randomUUID() }}; // keep it until the answer is there
const answer = await pay("{origin}/v1/token/{mint}", {{ headers }});
if (!answer.ok) throw new Error(await answer.text());
console.log((await answer.json()).data.indicators.m5.rsi);
```

A wallet that has bought credits spends them without a credit token, by `sign-in-with-x`: sign the
challenge in `extensions` of the 402 (good for five minutes, one path, once), and send
`SIGN-IN-WITH-X`. `wrapFetchWithSIWx` of `@x402/extensions` does so.

Clients of MPP pay too (`@solana/mpp`, `pympp`): they send `Accept-Payment: solana/charge`, and the
402 has `WWW-Authenticate: Payment` with the same terms.

`PAYMENT-RESPONSE` of a paid answer holds a signed receipt (`offer-receipt`: a JWS of EdDSA); its
keys are in {origin}/.well-known/did.json.

If an answer is lost after a payment was sent, send the same request with the same payment and
`Idempotency-Key`: it is given again, nothing is paid twice. If the credit token of a purchase is
lost, the wallet that paid moves its credits to a new one: sign the text of
`POST /v1/credits/rotate/challenge`, send it to `POST /v1/credits/rotate`.
"""
RULES: Final = """
## Rules

- Errors cost nothing: no answer of 400 or above is charged. The exception is `PAYMENT_PENDING`
  (503), whose payment may still arrive: do not pay again, send the same request with the same
  payment and `Idempotency-Key`.
- Send an `Idempotency-Key` with every payment: 16 to 128 of a-z, A-Z, 0-9, `-` and `_`, hard to
  guess, a new one for each purchase, the same one for each retry of it: a lost answer is given
  again.
- {limits}
- Prices are of one whole token, in US dollars and SOL, unrounded. Times are Unix seconds. An
  indicator is null while there are too few candles. The open candle counts.
- `meta`, headers and fields may grow; ignore what you do not know.
"""
LIMITS: Final = (
    "A 429 says in `Retry-After` how many seconds to wait; `RateLimit` says how much is left. Each"
    " credit token and each address without one has a limit of its own."
)


def write_guide(
    operations: Sequence[Operation],
    identity: Identity,
    paths: Collection[str],
    clients: tuple[str, str],
) -> bytes:
    """Return the text of /skill.md after its head.

    paths     the paths of the documents, and other served paths, such as MCP
    clients   URLs of the wheel and of the npm package of the clients
    """
    has_trial = any(each.path == TRIAL_PATH for each in operations)
    parts = [
        f"# {identity.name}\n\n> {identity.description}\n",
        _prices(),
        *_ways(identity, paths, clients, has_trial=has_trial),
        RULES.format(limits=LIMITS),
        *_routes(operations),
        _links(identity, paths),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts).encode()


def write_skill(
    operations: Sequence[Operation],
    identity: Identity,
    paths: Collection[str],
    clients: tuple[str, str],
) -> bytes:
    """Return /skill.md: the guide as an agent's skill, with its purpose first."""
    head = (
        f"---\nname: {identity.name}\ndescription: Use for the price of a Solana token and for its"
        " RSI, EMA, MACD, Fibonacci levels and buy and sell pressure, by mint address; costs"
        f" {REQUEST_USD} USD a call or one prepaid credit, errors are free.\n---\n\n"
    )
    return head.encode() + write_guide(operations, identity, paths, clients)


def _prices() -> str:
    lines = [
        f"- {each.credits} credits: {each.usd.normalize():f} USD ({each.discount_percent} % off)"
        for each in BUNDLES
    ]
    head = f"One call of what is paid for: {REQUEST_USD} USD by x402, or one prepaid credit.\n"
    return "\n".join([head, *lines])


def _ways(
    identity: Identity, paths: Collection[str], clients: tuple[str, str], *, has_trial: bool
) -> Iterator[str]:
    wheel, tarball = clients
    facts = {"origin": identity.origin, "mint": WSOL, "price": REQUEST_USD}
    trial = TRIAL.format(**facts) if has_trial else ""
    yield START.format(wheel=wheel, tarball=tarball, trial=trial, **facts)
    if MCP in paths:
        yield MCP_WAY.format(**facts)
    yield PAYING.format(**facts)


def _routes(operations: Sequence[Operation]) -> Iterator[str]:
    by_tag: dict[str, list[Operation]] = {}
    for each in operations:
        by_tag.setdefault(each.tag, []).append(each)
    for tag, members in by_tag.items():
        yield "\n".join([f"## {tag}\n", *map(_line, members)])


def _line(operation: Operation) -> str:
    """Return the line of *operation*: its request, its cost and its purpose."""
    text = operation.text
    return (
        f"- `{operation.method} {_address(operation)}` ({operation.cost}): {text}{_body(operation)}"
    )


def _address(operation: Operation) -> str:
    """Return the path and the query fields, with the accepted values of each."""
    if operation.query is None:
        return operation.path
    fields = [
        f"{name}={(',' if field.is_list else '|').join(field.values)}"
        for name, field in query_fields(operation.query).items()
    ]
    return f"{operation.path}?{'&'.join(fields)}" if fields else operation.path


def _body(operation: Operation) -> str:
    """Return an example of the body; "" if the operation has no body."""
    if operation.body is None:
        return ""
    (schema,), components = schemas_of((operation.body,))
    example = msgspec.json.encode(Examples(components).of(schema)).decode()
    return f" Body: `{example}`"


def _links(identity: Identity, paths: Collection[str]) -> str:
    lines = [
        f"- [{text}]({identity.origin}{path})"
        for path, text in (
            ("/openapi.json", "OpenAPI 3.1: every field, code and header"),
            ("/.well-known/x402", "What is sold by x402, as JSON"),
            ("/.well-known/api-catalog", "The catalogue of this API, RFC 9727"),
            ("/llms.txt", "The index of all documents"),
            ("/.well-known/security.txt", "Contact for vulnerabilities"),
        )
        if path in paths
    ]
    return "\n".join(["## More\n", *lines])


# Pages for people that are also served as Markdown, by their names in site/docs.py.
DOCS: Final = (
    ("/docs/guides/start", "From nothing to the first call"),
    ("/docs/guides/buying", "Buying credits"),
    ("/docs/guides/x402", "How x402 works"),
    ("/docs/guides/alerts", "Alerts by webhook"),
    ("/docs/guides/errors", "Errors are free"),
    ("/docs/guides/freshness", "How fresh the data is"),
    ("/docs/guides/clients", "Clients and MCP"),
    ("/docs/indicators", "What each number means"),
    ("/docs/errors", "Every error"),
    ("/docs/changelog", "Changelog"),
)
INDEX_START: Final = """
A paid call costs {price} USD by x402, or one prepaid credit; an answer of 400 or above costs
nothing. Mints are base58; wrapped SOL, `{mint}`, is always tracked.

```sh
curl -s {origin}{first}
```
"""
WAYS: Final = """
## How to pay

- A credit token (`svc_credit_...`) or an API key (`svc_live_...`) in `Authorization: Bearer`.
- Or x402 version 2 on Solana: a 402 has the terms in `PAYMENT-REQUIRED`; send the same request with
  `PAYMENT-SIGNATURE` and an `Idempotency-Key`. `POST /v1/credits/purchase?bundle=10` sells credits.
- Or MPP: with `Accept-Payment: solana/charge` the 402 has `WWW-Authenticate: Payment`, too.
- Or `SIGN-IN-WITH-X`: a wallet that has bought credits signs the challenge of the 402.
- Apply for an API key with `POST /api/public/beta-signup` (`scopes` asks for more than reading);
  the review takes 24 to 48 hours. `/v1/me/key` rotates and revokes the key and asks for scopes.
- Every way in code that runs as it is: [the guide]({origin}/skill.md).

## Clients

- Python: `pip install {origin}{wheel}`
- TypeScript: `npm install {origin}{tarball}`
"""
STREAM_PATH: Final = "/v1/stream"
SOCKET: Final = """
- Changes as they happen: `GET /v1/stream` sends events; `{origin}/v1/stream` is a WebSocket with
  the same ones. Its first message may be `{{"type": "auth", "token": "...", "mints": ["..."]}}`.
"""


def write_index(
    operations: Sequence[Operation],
    identity: Identity,
    paths: Collection[str],
    clients: tuple[str, str],
) -> bytes:
    """Return /llms.txt; the arguments are as for `write_guide`."""
    wheel, tarball = clients
    has_trial = any(each.path == TRIAL_PATH for each in operations)
    has_stream = any(each.path == STREAM_PATH for each in operations)
    first = f"/v1/trial/{WSOL}" if has_trial else "/v1/demo/token"
    origin = identity.origin
    parts = [
        f"# {identity.name}\n\n> {identity.description}\n",
        INDEX_START.format(price=REQUEST_USD, mint=WSOL, origin=origin, first=first),
        WAYS.format(origin=origin, wheel=wheel, tarball=tarball),
        *([f"- MCP, streamable HTTP: `{origin}{MCP}`"] if MCP in paths else []),
        *([SOCKET.format(origin=origin.replace("http", "ws", 1))] if has_stream else []),
        _documents(identity, paths),
        _endpoints(operations, identity),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts).encode()


def _documents(identity: Identity, paths: Collection[str]) -> str:
    origin = identity.origin
    lines = [
        f"- [The whole guide]({origin}/skill.md): every way to pay, every call in a line",
        f"- [OpenAPI 3.1]({origin}/openapi.json): every field, code and header",
    ]
    if "/.well-known/x402" in paths:
        lines.append(f"- [What is sold by x402]({origin}/.well-known/x402)")
    if identity.has_pages:
        lines += [f"- [{title}]({origin}{path}.md)" for path, title in DOCS]
    return "\n".join(["## Documents\n", *lines])


def _endpoints(operations: Sequence[Operation], identity: Identity) -> str:
    """Return the list of calls: one line for each path, with its price unless free."""
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    head = "## Calls\n\nFree unless the line has a price."
    if identity.has_pages:
        head += f" Each has a page: {identity.origin}/docs.md lists them."
    return "\n".join([f"{head}\n", *(_index_line(path, each) for path, each in by_path.items())])


def _index_line(path: str, operations: Sequence[Operation]) -> str:
    verbs = ", ".join(each.method for each in operations)
    charged = next((each for each in operations if each.is_charged), None)
    return f"- `{verbs} {path}`" + ("" if charged is None else f": {charged.cost}")
