"""The guides for agents: /skill.md and /llms.txt.

Source    https://llmstxt.org
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from mintscope.api.discovery.openapi import Identity
from mintscope.api.discovery.operation import Operation
from mintscope.api.discovery.responses import Examples, schemas_of
from mintscope.api.query import query_fields
from mintscope.payments.pricing import BUNDLES, REQUEST_USD
from mintscope.solana.blocks import WSOL

MCP: Final = "/mcp"
TRIAL_PATH: Final = "/v1/trial/{tokenAddress}"
TEXTS: Final = {
    each.stem: each.read_text(encoding="utf-8")
    for each in Path(__file__).with_name("texts").glob("*.txt")
}


def write_skill(
    operations: Sequence[Operation],
    identity: Identity,
    paths: Collection[str],
    clients: tuple[str, str],
) -> bytes:
    """Return the content of /skill.md, in UTF-8: the guide in the format of an agent's skill.

    paths     the served paths; documents and MCP are left out if their paths are not among them
    clients   the URL of the wheel of the Python client, and that of the npm package
    """
    head = (
        f"---\nname: {identity.name}\ndescription: Use for the price of a Solana token and for its"
        " RSI, EMA, MACD, Fibonacci levels and buy and sell pressure, by mint address; costs"
        f" {REQUEST_USD} USD a call or one prepaid credit, errors are free.\n---\n\n"
    )
    wheel, tarball = clients
    facts = {"origin": identity.origin, "mint": WSOL, "price": REQUEST_USD}
    trial = "\n" + TEXTS["trial"].format(**facts) if _has(TRIAL_PATH, operations) else ""
    parts = [
        f"# {identity.name}\n\n> {identity.description}\n",
        _prices(),
        TEXTS["start"].format(wheel=wheel, tarball=tarball, trial=trial, **facts),
        *([TEXTS["mcp"].format(**facts)] if MCP in paths else []),
        TEXTS["paying"].format(**facts),
        TEXTS["rules"],
        *_routes(operations),
        _links(identity, paths),
    ]
    return (head + _joined(parts)).encode()


def _has(path: str, operations: Sequence[Operation]) -> bool:
    return any(each.path == path for each in operations)


def _joined(parts: Sequence[str]) -> str:
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _prices() -> str:
    lines = [
        f"- {each.credits} credits: {each.usd.normalize():f} USD ({each.discount_percent} % off)"
        for each in BUNDLES
    ]
    head = f"A paid call costs {REQUEST_USD} USD by x402, or one prepaid credit.\n"
    return "\n".join([head, *lines])


def _routes(operations: Sequence[Operation]) -> Iterator[str]:
    by_tag: dict[str, list[Operation]] = {}
    for each in operations:
        by_tag.setdefault(each.tag, []).append(each)
    for tag, members in by_tag.items():
        yield "\n".join([f"## {tag}\n", *map(_line, members)])


def _line(operation: Operation) -> str:
    """Return the Markdown list item of *operation*: its request, cost and purpose."""
    text = operation.text
    return (
        f"- `{operation.method} {_address(operation)}` ({operation.cost}): {text}{_body(operation)}"
    )


def _address(operation: Operation) -> str:
    """Return the path and query fields of *operation*, with the accepted values of each field."""
    if operation.query is None:
        return operation.path
    fields = [
        f"{name}={(',' if field.is_list else '|').join(field.values)}"
        for name, field in query_fields(operation.query).items()
    ]
    return f"{operation.path}?{'&'.join(fields)}" if fields else operation.path


def _body(operation: Operation) -> str:
    """Return an example of the request body of *operation*; "" if it has no body."""
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
            ("/.well-known/x402", "The calls that are sold by x402, as JSON"),
            ("/.well-known/api-catalog", "The catalogue of this API, RFC 9727"),
            ("/llms.txt", "The index of all documents"),
            ("/.well-known/security.txt", "Contact for vulnerabilities"),
        )
        if path in paths
    ]
    return "\n".join(["## More\n", *lines])


# Pages for people that are also served as Markdown, with their titles.
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
STREAM_PATH: Final = "/v1/stream"


def write_index(
    operations: Sequence[Operation],
    identity: Identity,
    paths: Collection[str],
    clients: tuple[str, str],
) -> bytes:
    """Return the content of /llms.txt, in UTF-8: the index of the documents and calls.

    The arguments are those of `write_skill`; here /skill.md and /openapi.json are always included.
    """
    wheel, tarball = clients
    first = f"/v1/trial/{WSOL}" if _has(TRIAL_PATH, operations) else "/v1/demo/token"
    origin = identity.origin
    of_sockets = origin.replace("http", "ws", 1)  # https becomes wss
    parts = [
        f"# {identity.name}\n\n> {identity.description}\n",
        TEXTS["index"].format(price=REQUEST_USD, mint=WSOL, origin=origin, first=first),
        TEXTS["ways"].format(origin=origin, wheel=wheel, tarball=tarball),
        *([f"- MCP, streamable HTTP: `{origin}{MCP}`"] if MCP in paths else []),
        *([TEXTS["socket"].format(origin=of_sockets)] if _has(STREAM_PATH, operations) else []),
        _documents(identity, paths),
        _endpoints(operations, identity),
    ]
    return _joined(parts).encode()


def _documents(identity: Identity, paths: Collection[str]) -> str:
    origin = identity.origin
    lines = [
        f"- [The whole guide]({origin}/skill.md): every way to pay, and every call",
        f"- [OpenAPI 3.1]({origin}/openapi.json): every field, code and header",
    ]
    if "/.well-known/x402" in paths:
        lines.append(f"- [What is sold by x402]({origin}/.well-known/x402)")
    if identity.has_pages:
        lines += [f"- [{title}]({origin}{path}.md)" for path, title in DOCS]
    return "\n".join(["## Documents\n", *lines])


def _endpoints(operations: Sequence[Operation], identity: Identity) -> str:
    """Return the list of calls: one line for each path, with the price of each charged call."""
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
