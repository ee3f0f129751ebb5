"""Alerts in words: readable numbers, and a firing in one line."""

from dataclasses import replace

import pytest

from mintscope.alerts.alert import AlertRule, Firing, FiringId, FiringKind, NewFiring, SignalId
from mintscope.alerts.conditions import FIELDS, Direction, Field, SignalKind
from mintscope.alerts.emails import (
    event_words,
    field_words,
    number_words,
    symbol_words,
    unit_of,
    value_words,
)
from mintscope.alerts.messages import GROUPS, Present, read_present, remarks_on
from mintscope.kit.primitives import Mint, Slot, UnixMs, UnixS
from mintscope.market.report import NAMED, ReportKind
from mintscope.solana.blocks import WSOL
from support.fakes.reports import FakeReports

USD = Field("price.usd")
LEVELS = ("swingHigh", "level236", "ext1272")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (161.5, "161.50"),
        (1_234_567.891, "1,234,567.89"),
        (0.0, "0.00"),
        (0.5, "0.5"),
        (0.000012345678, "0.00001235"),
        (1e-15, "0.000000000000001"),
        (1e-30, "0.00"),
        (0.99994, "0.99994"),
        (0.999999, "0.999999"),
        (-0.99999, "-0.99999"),
        (1 - 2**-53, "0.9999999999999999"),
    ],
)
def test_a_number_is_readable(value: float, text: str) -> None:
    assert number_words(value) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("price.usd", 160.49784259583407, "$160.50"),
        ("price.sol", 0.5, "0.5 SOL"),
        ("indicators.h1.rsi", 71.24, "71.2"),
        ("indicators.buySellPressure.d1", 0.625, "62.5 %"),
        ("indicators.m5.macd.line", -0.02, "-$0.02"),
        ("indicators.h1.ema200", 1500.0, "$1,500.00"),
    ],
)
def test_a_value_has_its_unit(field: str, value: float, text: str) -> None:
    assert value_words(Field(field), value) == text


def fired(value: float, reference: float, direction: Direction) -> Firing:
    return Firing(
        firing_id=FiringId(1),
        fired=NewFiring(
            signal_id=SignalId(1),
            kind=FiringKind.FIRED,
            seq=1,
            slot=Slot(1),
            time=UnixS(1),
            value=value,
            direction=direction,
            reference=reference,
            fired_at=UnixMs(1),
        ),
        due_at=None,
        attempts=0,
        delivered_at=None,
        given_up_at=None,
        reason=None,
    )


def rule(kind: SignalKind, field: str = USD, compared: str | None = None) -> AlertRule:
    other = None if compared is None else Field(compared)
    return AlertRule(name="n", mint=Mint(WSOL), field=Field(field), kind=kind, compared=other)


def test_the_text_of_a_firing_names_token_value_and_level() -> None:
    down = Direction.DOWN
    up = Direction.UP
    crosses, moves = rule(SignalKind.CROSSES), rule(SignalKind.CHANGES_BY)
    rsi = rule(SignalKind.ABOVE, "indicators.h1.rsi")
    cross = rule(SignalKind.CROSSES_FIELD, USD, "indicators.h1.ema200")

    assert event_words(crosses, fired(160.5, 161.5, down), "SOL") == (
        "SOL fell below $161.50 (now $160.50)"
    )
    assert event_words(moves, fired(110.0, 100.0, up), "SOL") == (
        "SOL rose 10.0 % (from $100.00 to $110.00)"
    )
    assert event_words(rsi, fired(71.2, 70.0, up), "SOL") == "SOL RSI 1h rose above 70.0 (now 71.2)"
    assert event_words(cross, fired(162.0, 161.5, up), "SOL") == (
        "SOL rose above its EMA 200 1h of $161.50 (now $162.00)"
    )
    names = [field_words(Field(f"indicators.m5.fibonacci.{each}")) for each in LEVELS]
    assert names == [
        *("Fibonacci high, 5 minutes", "Fibonacci 23.6 %, 5 minutes"),
        "Fibonacci 127.2 % extension, 5 minutes",
    ]
    assert [text for _, text in GROUPS["RSI"]][:2] == ["RSI, 15 seconds", "RSI, 1 minute"]


@pytest.mark.parametrize(
    ("symbol", "text"),
    [
        ("SOL", "SOL"),
        (None, "So11...1112"),
        ("\u202eKNOB", "KNOB"),
        ("win-sol.example/claim", "win-solexampleclaim"[:16]),
        ("\n", "So11...1112"),
    ],
)
def test_a_symbol_becomes_one_short_line_without_links(symbol: str | None, text: str) -> None:
    assert symbol_words(symbol, WSOL) == text


def test_remarks_warn_about_an_alert_before_it_is_made() -> None:
    """Examples: an untracked token, an early or dead token, a condition that is already true."""
    ema = Field("indicators.h1.ema200")
    rises = AlertRule(
        name="a", mint=Mint(WSOL), field=USD, kind=SignalKind.ABOVE, level=9.0, by_email=True
    )
    crosses = replace(
        rises, kind=SignalKind.CROSSES_FIELD, compared=ema, level=0.0, direction=Direction.UP
    )

    def names(asked: AlertRule, present: Present | None) -> list[str]:
        return [each.name for each in remarks_on(asked, present)]

    assert names(rises, Present({}, None, is_tracked=False)) == ["untracked"]
    assert names(rises, Present({}, 5)) == ["early"]
    assert names(crosses, Present({USD: 10.0}, 5)) == ["early"]
    assert (
        "EMA 200, 1 hour of this token needs"
        in remarks_on(crosses, Present({USD: 10.0}, 5))[0].text
    )
    assert names(crosses, Present({USD: 10.0, ema: 9.0}, 5)) == ["true"]
    assert names(crosses, Present({USD: 8.0, ema: 9.0}, 5)) == []
    assert names(rises, Present({USD: 10.0}, 3 * 86_400_000)) == ["dead", "true"]
    assert "1 day and 1 hour ago." in remarks_on(rises, Present({USD: 8.0}, 25 * 3_600_000))[0].text
    assert names(replace(rises, by_email=False), None) == ["silent"]


async def test_the_remark_about_a_true_condition_uses_the_timeframe_of_the_alert() -> None:
    reports = FakeReports()
    reports.body = b'{"price":{"usd":9.5},"indicators":{"h4":{"rsi":71.0}}}'
    hot = AlertRule(
        name="a", mint=Mint(WSOL), field=Field("indicators.h4.rsi"), kind=SignalKind.ABOVE,
        level=70.0, by_email=True,
    )  # fmt: skip
    present = await read_present(reports, hot.mint, (hot.field, ""), is_closed=True)
    assert reports.kinds == [ReportKind(is_partial=True, is_closed=True, timeframes=("h4",))]
    text = "The condition is already true: RSI, 4 hours is 71.0. It fires the next time that it"
    assert [each.text for each in remarks_on(hot, present)] == [f"{text} crosses."]


def test_every_number_has_a_unit() -> None:
    own = {each.name for each in NAMED.values() if each.bounds}

    assert {unit_of(field) for field in FIELDS} - own == {
        "USD", "SOL", "USD liquidity", "share", "MACD"
    }  # fmt: skip
