"""MCP at /mcp: schemas that every host reads, errors that conform to them, lists as tables."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import jsonschema
import msgspec
import pytest
from mcp_types import CallToolResult
from msgspec.structs import fields
from series_service import SeriesService
from starlette.types import ASGIApp

from mintscope.api.series.wire import Candle, SwapLine
from mintscope.api.tokens import ListedToken
from mintscope.mcp.tools import CANDLES, LISTED, SWAPS, TOOLS, Page, table_of
from support.fakes.reports import TRACKED, UNTRACKED
from support.scenes.mcp_service import mcp_beside, mcp_client
from support.scenes.payments.selling_api import SellingApi
from support.scenes.service import bearer
from support.scenes.whole_report import whole_report

# The fields that Gemini's API allows in a schema of the parameters of a function.
GEMINI = {
    "type", "description", "enum", "items", "properties", "required", "default", "minimum",
    "maximum", "minLength", "maxLength", "minItems", "maxItems",
}  # fmt: skip


@pytest.fixture
async def app(shop: SellingApi) -> AsyncIterator[ASGIApp]:
    shop.service.reports.body = whole_report(has_m1=False)
    async with mcp_beside(shop.service.app, shop.service.clock) as app:
        yield app


def schemas_in(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield schema
    for each in schema.get("properties", {}).values():
        yield from schemas_in(each)
    if "items" in schema:
        yield from schemas_in(schema["items"])


async def test_tools_are_listed_in_less_than_15_kb(app: ASGIApp) -> None:
    async with mcp_client(app) as client:
        listed = await client.list_tools()

    assert len(listed.tools) == len(TOOLS)
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < 15_000
    assert listed.ttl_ms == 3_600_000


async def test_input_schemas_have_only_fields_that_gemini_accepts(app: ASGIApp) -> None:
    async with mcp_client(app) as client:
        tools = (await client.list_tools()).tools

    for each in (each for tool in tools for each in schemas_in(tool.input_schema)):
        assert set(each) <= GEMINI
        assert each["type"] in {"object", "array", "string", "integer", "number", "boolean"}
        if "enum" in each:
            assert each["type"] == "string"
            assert all(isinstance(value, str) for value in each["enum"])
        assert each.get("maximum", 0) < 2**31


async def test_errors_conform_to_the_output_schema_of_their_tool(
    shop: SellingApi, app: ASGIApp
) -> None:
    empty = await shop.service.issue(1)
    async with mcp_client(app, bearer(empty)) as client:
        await client.call_tool("get_token", {"mint": TRACKED})
    calls: list[tuple[dict[str, str], str, dict[str, Any], str]] = [
        ({}, "get_token", {"mint": TRACKED}, "PAYMENT_REQUIRED"),
        ({}, "get_token", {"mint": TRACKED, "max_usd": 0}, "BUDGET_EXCEEDED"),
        ({}, "get_token", {"mint": TRACKED, "max_creditz": 0}, "INVALID_ARGUMENTS"),
        ({}, "get_token", {"mint": "nope"}, "INVALID_TOKEN_ADDRESS"),
        ({}, "get_balance", {}, "MISSING_TOKEN"),
        (bearer(empty), "get_token", {"mint": TRACKED}, "INSUFFICIENT_CREDITS"),
        (bearer(await shop.service.issue(1)), "get_token", {"mint": UNTRACKED}, "TOKEN_NOT_FOUND"),
        ({}, "buy_credits", {"bundle": 11, "max_usd": 1}, "INVALID_BUNDLE"),
        ({}, "buy_credits", {"bundle": 10, "max_usd": 1}, "PAYMENT_REQUIRED"),
    ]
    for headers, name, arguments, code in calls:
        async with mcp_client(app, headers) as client:
            schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            result = await client.call_tool(name, arguments)
        reported = result.structured_content
        schema = schemas[name]
        assert result.is_error
        assert schema is not None
        jsonschema.validate(reported, schema)
        assert code == (reported.get("code") or reported["error"]["code"]), reported
        assert reported["charged"] is False


async def test_successes_conform_to_the_output_schema_of_their_tool(
    shop: SellingApi, app: ASGIApp
) -> None:
    async with mcp_client(app, bearer(await shop.service.issue(2))) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for name, arguments in (("get_token", {"mint": TRACKED}), ("get_balance", {})):
            schema = schemas[name]
            assert schema is not None
            result = await client.call_tool(name, arguments)
            assert not result.is_error
            jsonschema.validate(result.structured_content, schema)


@pytest.mark.parametrize(
    ("page", "row"), [(LISTED, ListedToken), (CANDLES, Candle), (SWAPS, SwapLine)]
)
def test_fields_of_lists_equal_those_of_the_api(page: Page, row: type[msgspec.Struct]) -> None:
    assert page.fields == tuple(field.encode_name for field in fields(row))
    assert set(page.default) <= set(page.fields)


async def test_candles_are_a_table_in_the_text_alone(market: SeriesService) -> None:
    await market.trade(0, 2.0, volume=1_500_000)
    await market.trade(59, 1.123456789123, is_buy=False, volume=250_000)
    token = await market.service.issue(2)
    async with (
        mcp_beside(market.service.app, market.service.clock) as app,
        mcp_client(app, bearer(token)) as client,
    ):
        read = {"mint": TRACKED, "tf": "m1"}
        usual = await client.call_tool("get_candles", read)
        chosen = await client.call_tool("get_candles", read | {"fields": ["t", "sol", "isOpen"]})
        refused = await client.call_tool("get_candles", read | {"fields": ["price"]})

    assert usual.structured_content is None
    table = rows_of(usual, "candles")
    assert table["columns"] == ["t", "o", "h", "l", "c", "volume"]
    assert table["rows"][0][1:] == [2.0, 2.0, 1.12345679, 1.12345679, 1.75]
    columns = rows_of(chosen, "candles")["columns"]
    assert columns == ["t", "sol.o", "sol.h", "sol.l", "sol.c", "isOpen"]
    assert refused.is_error
    assert "fields: expected some of t, o, h" in refused.structured_content["error"]["message"]


def rows_of(result: CallToolResult, name: str) -> dict[str, Any]:
    return dict(json.loads(result.content[0].text)["data"][name])  # type: ignore[union-attr]


def test_nested_values_become_columns_and_null_values_stay_null() -> None:
    points: list[dict[str, Any]] = [
        {"t": 1, "macd": None, "rsi": None},
        {"t": 2, "macd": {"line": 0.123456789012, "signal": -1.5}, "rsi": 50},
    ]
    assert table_of(points, ()) == {
        "columns": ["t", "rsi", "macd.line", "macd.signal"],
        "rows": [[1, None, None, None], [2, 50, 0.123456789, -1.5]],
    }
    assert table_of(points[:1], ("t", "macd")) == {"columns": ["t", "macd"], "rows": [[1, None]]}
    assert table_of([], ()) == {"columns": [], "rows": []}


def test_a_table_of_595_candles_is_below_41_000_bytes() -> None:
    candles = [
        dict.fromkeys(("t",), 1763459700 + 60 * at)
        | dict.fromkeys(("o", "h", "l", "c", "volume"), 171.0 / 7 + at / 13)
        for at in range(595)
    ]
    assert len(msgspec.json.encode(table_of(candles, ()))) < 41_000
