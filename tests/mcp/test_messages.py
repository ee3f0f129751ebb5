"""Any message to /mcp is answered without an internal error, and charged only for a report."""

import json
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mintscope.app.config.config import ApiConfig
from mintscope.kit.credentials import CreditToken
from mintscope.kit.errors import InternalError
from mintscope.kit.limits import Limit
from support.fakes.reports import TRACKED
from support.scenes.mcp_service import mcp_beside
from support.scenes.service import Service, bearer, running_service
from support.scenes.whole_report import whole_report

HEADERS: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}
RAISED: Final = Limit(name="raised", count=1_000_000_000, window_s=60)
MODERN: Final = "2026-07-28"
VERSIONS: Final = [None, "2025-03-26", "2025-06-18", "2025-11-25", MODERN, "1.0", "x y"]
JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
TOOLS: Final = ["get_token", "get_balance", "buy_credits", "no_tool", 7]
ARGUMENTS: Final = ["mint", "bundle", "max_usd", "max_credits", "idempotency_key", "x"]
CALLS: Final = st.fixed_dictionaries(
    {
        "jsonrpc": st.sampled_from(["2.0", "1.0"]),
        "method": st.sampled_from(
            ["tools/call", "tools/list", "initialize", "ping", "server/discover", "resources/list",
             "subscriptions/listen", "notifications/initialized", "x"]
        ),
        "params": JSON
        | st.fixed_dictionaries(
            {"name": st.sampled_from(TOOLS)},
            optional={
                "arguments": JSON
                | st.dictionaries(
                    st.sampled_from(ARGUMENTS), JSON | st.sampled_from([TRACKED, 10, "\ud800"])
                ),
                "_meta": JSON | st.dictionaries(st.sampled_from(["x402/payment", "x"]), JSON),
            },
        ),
    },
    optional={"id": st.integers() | st.text(max_size=5) | JSON},
)  # fmt: skip
SPOILT: Final[list[tuple[bytes, str | None]]] = [
    (content, version)
    for content in (
        b"",
        b"{",
        b"\xff",
        b"[" * 9_000,
        b'{"id":' + b"9" * 5_000 + b"}",
        b"[]",
        b"null",
    )
    for version in (None, MODERN)
]

HOSTILE: Final = [b"[" * 190 + b"]" * 190, b"9" * 4_000, b"9" * 5_000, b"1e400", b"-1e308", b"{}"]
CALL: Final = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","arguments":{"%b":%b}}}'
)
HOSTILE_CALLS: Final[list[tuple[bytes, str | None]]] = [
    (CALL % (tool, argument, value), None)
    for tool in (b"get_token", b"search_tokens", b"get_candles", b"buy_credits")
    for argument in (b"mint", b"limit", b"fields", b"bundle", b"max_usd", b"max_credits", b"cursor")
    for value in HOSTILE
]
REPORT: Final = CALL % (b"get_token", b"mint", b'"%b"' % TRACKED.encode())
CREDITS: Final = 1_000


class Conversation(NamedTuple):
    """A client of a service, and the credit token that it sends with each message."""

    http: httpx.AsyncClient
    service: Service
    token: CreditToken


@pytest.fixture
async def conversation(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Conversation]:
    folder = tmp_path_factory.mktemp("mcp")
    api = ApiConfig(rate_limit_requests=1_000_000_000)
    async with running_service(folder, api=api) as service:
        service.reports.body = whole_report(has_m1=False)
        async with mcp_beside(service.app, service.clock, limit=RAISED) as app:
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                token = await service.issue(CREDITS)
                client.headers["authorization"] = bearer(token)["authorization"]
                yield Conversation(client, service, token)


def made_up() -> list[tuple[bytes, str | None]]:
    """Return generated MCP messages, each with the protocol version that it states, or None."""
    messages: list[tuple[bytes, str | None]] = []

    @settings(max_examples=300, database=None)
    @given(CALLS | JSON, st.sampled_from(VERSIONS))
    def note(message: Any, version: str | None) -> None:
        messages.append((json.dumps(message).encode(), version))

    note()
    return messages


async def test_any_message_is_answered_without_an_internal_error_and_charged_only_for_a_report(
    conversation: Conversation,
) -> None:
    http, service, token = conversation
    left = CREDITS
    for content, version in [*made_up(), *SPOILT, *HOSTILE_CALLS, (REPORT, None)]:
        claimed = {} if version is None else {"mcp-protocol-version": version}
        answer = await http.post("/mcp", content=content, headers=HEADERS | claimed)

        assert answer.status_code < 500, (content, answer.text)
        assert InternalError().args[0].encode() not in answer.content, content
        assert b"Internal" not in answer.content, (content, answer.text)
        before = left
        left = await service.left(token)
        assert before - left == (b'"buySellPressure":' in answer.content), (content, answer.text)
    assert left < CREDITS, "the last message buys a report"
