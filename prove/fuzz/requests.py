"""Fuzz targets for parts of requests: queries, bodies, arguments, links and signatures."""

import json
from contextlib import suppress
from typing import Any, Final, get_args

import numpy as np
from starlette.types import Message

from mintscope.accounts.email_address import UnusableEmailAddress, parse_email
from mintscope.accounts.session import parse_link
from mintscope.accounts.wallets.wire import PaymentsQuery
from mintscope.alerts.conditions import FIELDS as REPORTED
from mintscope.alerts.conditions import UnwatchableCondition, watched_by
from mintscope.alerts.wire import EventsQuery, NewSignal
from mintscope.api.query import read_query
from mintscope.api.screen import ScreenQuery, ScreenRequest
from mintscope.api.series.backtest import BacktestQuery, BacktestRequest
from mintscope.api.series.series import PricesRequest
from mintscope.api.series.udf import HistoryQuery, MarksQuery, SearchQuery, SymbolQuery
from mintscope.api.series.wire import CandlesQuery, IndicatorsQuery, SwapsQuery
from mintscope.api.tokens import ListQuery
from mintscope.api.v1 import BatchRequest
from mintscope.api.wire import PurchaseQuery, ReportQuery, TokenQuery
from mintscope.credits.sign_in import ChallengeFlaw, find_text_flaw, write_text
from mintscope.kit.errors import BadRequest
from mintscope.kit.http.request import Request, UnreadableBody, parse_object, parse_shape
from mintscope.kit.primitives import Wallet
from mintscope.market.screening.backtest import UntestableCondition, needed_timeframes
from mintscope.market.screening.grammar import (
    ALL_FIELDS,
    FIELDS,
    ConditionError,
    before,
    parse_condition,
)
from mintscope.market.screening.screen import rows_where
from mintscope.market.timeframe import FRAMES, Timeframe
from mintscope.mcp.arguments import BadArguments, read_arguments
from mintscope.mcp.tools import TOOLS
from prove.fuzz.inputs import changed_bytes, changed_json
from prove.fuzz.target import KEY, NOW, Target

INTEGERS: Final = 2**63
QUERIES: Final = (
    BacktestQuery, CandlesQuery, EventsQuery, HistoryQuery, IndicatorsQuery, ListQuery, MarksQuery,
    PaymentsQuery, PurchaseQuery, ReportQuery, ScreenQuery, SearchQuery, SwapsQuery, SymbolQuery,
    TokenQuery,
)  # fmt: skip


async def _receive() -> Message:
    raise AssertionError("the body is at hand")


def _request(query: bytes = b"") -> Request:
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    return Request(scope | {"query_string": query}, _receive)


def _expect_storable(value: object) -> None:
    """Check that all integers inside *value*, a parsed input, fit into 64 bits."""
    if isinstance(value, int):
        assert -INTEGERS <= value < INTEGERS
    elif isinstance(value, (list, tuple)):
        for each in value:
            _expect_storable(each)
    elif isinstance(value, dict):
        _expect_storable(list(value.values()))


def json_body(text: bytes) -> None:
    """Parse *text* as a JSON body of any object, and of each request that has numbers."""
    with suppress(UnreadableBody):
        _expect_storable(parse_object(_request(), text))
    for shape in (
        BacktestRequest,
        BatchRequest,
        PricesRequest,
        ScreenRequest,
        *(get_args(NewSignal) or (NewSignal,)),
    ):
        with suppress(UnreadableBody):
            parse_shape(_request(), text, shape)


def query(text: bytes) -> None:
    """Parse *text* as the query of each list and report; an accepted value must be storable."""
    for shape in QUERIES:
        with suppress(BadRequest):
            read = read_query(_request(text), shape)
            _expect_storable([getattr(read, name) for name in read.__struct_fields__])


def condition(text: bytes) -> None:
    """Parse *text* as a condition for screens, alerts and backtests.

    An error must name a place in *text*. The condition is evaluated as in a screen; alerts and
    backtests must accept it or give a reason.
    """
    written = text.decode(errors="replace")
    for known in (FIELDS, ALL_FIELDS):
        try:
            read = parse_condition(written, known)
        except ConditionError as flaw:
            place = flaw.at
        else:
            place = 0
            assert rows_where(read, COLUMNS.__getitem__, len(ROWS)).shape == ROWS.shape
            with suppress(UnwatchableCondition):
                assert watched_by(read).field in REPORTED
            with suppress(UntestableCondition):
                assert needed_timeframes(read, Timeframe.M1)[0] is Timeframe.M1
        assert 0 <= place <= len(written)


def arguments(text: bytes) -> None:
    """Parse *text* as the JSON arguments of each MCP tool; they may only be refused."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(given, dict):
        for tool in TOOLS:
            with suppress(BadArguments):
                read_arguments(tool, given, KNOWN)


def link(text: bytes) -> None:
    """Parse *text*, the secret part of a link in an e-mail; a wrong link must only be refused."""
    found = parse_link(text.decode("latin-1"))
    assert found is None or found[0] < INTEGERS


def proof(text: bytes) -> None:
    """Check *text* as a sign-in text of a wallet, and as its signature; both must be refused."""
    for changed, signature in ((text.decode("latin-1"), bytes(64)), (WRITTEN, text)):
        for wallet in (KEY, text.decode("latin-1")):
            flaw = find_text_flaw(
                PROOF_KEY, "", wallet=Wallet(wallet), text=changed, signature=signature, now=NOW
            )
            assert isinstance(flaw, ChallengeFlaw)


def email(text: bytes) -> None:
    """Parse *text* as an e-mail address; parsing the result again must not change it."""
    read = parse_email(text.decode(errors="replace"))
    assert parse_email(read) == read


ROWS: Final = np.array([np.nan, 0.0, -1.0, 1e300, 1.0])
NAMES: Final = [
    *ALL_FIELDS,
    *(before(name, tf, age) for name in ALL_FIELDS for tf in FRAMES for age in range(1, 6)),
]
COLUMNS: Final = dict.fromkeys(NAMES, ROWS)
CONDITIONS: Final = [
    b"liquidity > 100_000 and rsi_h1 < 30 and price > ema200_h1",
    b"crosses_below(rsi_h1, 30, 3) or crosses_above(price, ema9_m5)",
    b"crosses_above(ema9_h4, ema21_h4, 2) or rsi_d1 > 70 and macd_m30 > macd_signal_m30",
    b"not (confidence <= medium or -change_h1 * 2.5e-3 != (price - price_sol) / volume_d1)",
]
PROOF_KEY: Final = b"p" * 32
WRITTEN: Final = write_text(PROOF_KEY, "", now=NOW, nonce=b"n" * 16)
BODIES: Final[list[Any]] = [
    {"mints": [KEY, KEY], "timeframes": ["1m", "1h"], "partial": True},
    {
        "name": "up",
        "mint": KEY,
        "field": "price",
        "kind": "crosses_above",
        "level": 1.5,
        "margin": 0.1,
        "windowS": 3_600,
        "url": "https://receiver.example/hook",
    },
]
ARGUMENTS: Final[list[dict[str, Any]]] = [
    {"mint": KEY, "limit": 100, "cursor": "WyJhIl0", "max_credits": 3, "max_usd": 0.05},
    {"bundle": "b10", "max_usd": "1e1", "idempotency_key": "k" * 20, "mints": [KEY, KEY]},
]
KNOWN: Final = {name for given in ARGUMENTS for name in given}
SEEDS: Final = [
    b"from=1750000000&to=1750003600&limit=100&timeframe=1m&cursor=WyJhIl0",
    b"limit=9223372036854775808&before=-1&order=desc&timeframes=1m,5m",
]
TARGETS: Final = {
    "JSON body": Target(changed_json(BODIES), json_body),
    "query": Target(changed_bytes(SEEDS), query),
    "condition": Target(changed_bytes(CONDITIONS), condition),
    "arguments of a tool": Target(changed_json(ARGUMENTS), arguments),
    "proof of a wallet": Target(changed_bytes([WRITTEN.encode(), bytes(64), b"7.x"]), proof),
    "e-mail address": Target(
        changed_bytes([b"agent@example.org", "ä@müller.example".encode(), b'"a b"@[127.0.0.1]']),
        email,
        (UnusableEmailAddress,),
    ),
    "link": Target(changed_bytes([b"7.abc", b"1" * 19 + b".x"]), link),
}
