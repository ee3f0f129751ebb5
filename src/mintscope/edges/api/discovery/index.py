"""/llms.txt: an index of the API and its documents, at most INDEX_BYTES_MAX long.

Source    https://llmstxt.org
"""

from collections.abc import Collection, Sequence
from typing import Final

from mintscope.base.solana import WSOL
from mintscope.core.payments.pricing.price_list import REQUEST_USD
from mintscope.edges.api.description.identity import Identity
from mintscope.edges.api.description.operation import Operation
from mintscope.edges.api.discovery.guide import MCP, TRIAL_PATH

INDEX_BYTES_MAX: Final = 6 * 1024
# Pages for people, which are served as Markdown too; by their names in edges/web/docs.
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
START: Final = """
A paid call costs {price} USD by x402, or one prepaid credit; an answer of 400 or above costs
nothing. Mints are base58; wrapped SOL, `{mint}`, is always followed.

```sh
curl -s {origin}{first}
```
"""
WAYS: Final = """
## How to pay

- A credit token (`svc_credit_...`) or an API key (`svc_live_...`) in `Authorization: Bearer`.
- Or x402 version 2 on Solana: a 402 has the terms in `PAYMENT-REQUIRED`; send the same request with
  `PAYMENT-SIGNATURE` and an `Idempotency-Key`. `POST /v1/credits/purchase?bundle=10` sells credits.
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
    """Return /llms.txt; the arguments are those of `guide.write_guide`."""
    wheel, tarball = clients
    has_trial = any(each.path == TRIAL_PATH for each in operations)
    has_stream = any(each.path == STREAM_PATH for each in operations)
    first = f"/v1/trial/{WSOL}" if has_trial else "/v1/demo/token"
    origin = identity.origin
    parts = [
        f"# {identity.name}\n\n> {identity.description}\n",
        START.format(price=REQUEST_USD, mint=WSOL, origin=origin, first=first),
        WAYS.format(origin=origin, wheel=wheel, tarball=tarball),
        *([f"- MCP, streamable HTTP: `{origin}{MCP}`"] if MCP in paths else []),
        *([SOCKET.format(origin=_socket(origin))] if has_stream else []),
        _documents(identity, paths),
        _endpoints(operations, identity),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts).encode()


def _socket(origin: str) -> str:
    """Return *origin* with the scheme of a WebSocket."""
    return origin.replace("http", "ws", 1)


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
    """Return the calls, a line for each path; free ones without a price."""
    by_path: dict[str, list[Operation]] = {}
    for each in operations:
        by_path.setdefault(each.path, []).append(each)
    head = "## Calls\n\nFree unless the line has a price."
    if identity.has_pages:
        head += f" Each has a page: {identity.origin}/docs.md lists them."
    return "\n".join([f"{head}\n", *(_line(path, each) for path, each in by_path.items())])


def _line(path: str, operations: Sequence[Operation]) -> str:
    verbs = ", ".join(each.method for each in operations)
    charged = next((each for each in operations if each.is_charged), None)
    return f"- `{verbs} {path}`" + ("" if charged is None else f": {charged.cost}")
