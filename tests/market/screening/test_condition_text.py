"""The parser of conditions, and the positions in the text that its errors name."""

import pytest

from mintscope.market.screening.grammar import (
    ALL_FIELDS,
    CROSSED_MAX,
    DEPTH_MAX,
    FIELDS,
    PARTS_MAX,
    TEXT_MAX,
    Arithmetic,
    BeforeOf,
    Comparison,
    ConditionError,
    FieldOf,
    Junction,
    Negation,
    NumberOf,
    fields_in,
    parse_condition,
)
from mintscope.market.timeframe import Timeframe


def test_operators_are_read_by_their_precedence() -> None:
    read = parse_condition("price > 1 + 2 * price_sol or not rsi_h1 < 3e1 and swaps_d1 = 1_000")

    sum_ = Arithmetic("+", NumberOf(1.0), Arithmetic("*", NumberOf(2.0), FieldOf("price_sol")))
    assert read == Junction(
        "or",
        (
            Comparison(">", FieldOf("price"), sum_),
            Junction(
                "and",
                (
                    Negation(Comparison("<", FieldOf("rsi_h1"), NumberOf(30.0))),
                    Comparison("=", FieldOf("swaps_d1"), NumberOf(1_000.0)),
                ),
            ),
        ),
    )
    assert fields_in(read) == ("price", "price_sol", "rsi_h1", "swaps_d1")


def test_operators_of_equal_rank_bind_to_the_left_and_words_ignore_case() -> None:
    read = parse_condition("PRICE - 1 - 2 > 0 AND Confidence >= Medium")
    assert read == parse_condition("((price - 1) - 2 > 0) and (confidence >= medium)")
    assert read != parse_condition("price - (1 - 2) > 0 and confidence >= medium")


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("", 0, "expected a field, a number or `(`; was the end"),
        ("price >", 7, "expected a field, a number or `(`; was the end"),
        ("price > 1 rsi_h1 < 2", 10, "expected the end, `and` or `or`; was 'rsi_h1'"),
        ("price > 1 and rsi < 30", 14, "unknown field 'rsi'; did you mean"),
        ("prise > 1", 0, "unknown field 'prise'; did you mean price?"),
        ("price > 1 and rsi_h4 < 30", 14, "screens have rsi of m1, m5, m15, h1; was h4"),
        ("zzzzzzzzzz > 1", 0, "unknown field 'zzzzzzzzzz'"),
        ("price > 1 & 2", 10, "expected a field, a number or a sign; was '&'"),
        ("(price > 1", 10, "expected `)` for the `(` at character 1; was the end"),
        ("price > 1)", 9, "expected the end, `and` or `or`; was ')'"),
        ("1 < price < 2", 10, "expected `and`: comparisons are not chained; was '<'"),
        ("price", 0, "expected a comparison, as `price > 1`; was a number"),
        ("price and rsi_h1 < 3", 0, "expected a comparison, as `price > 1`; was a number"),
        ("price > 1 or 2", 13, "expected a comparison, as `price > 1`; was a number"),
        ("not price", 4, "expected a comparison, as `price > 1`; was a number"),
        ("(price > 1) > 2", 1, "expected a number; was a comparison"),
        ("1 + (price > 1) > 2", 5, "expected a number; was a comparison"),
        ("confidence > 1", 13, "expected a level of confidence; was a number"),
        ("price > high", 8, "expected a number; was a level of confidence"),
        ("confidence + 1 > 1", 0, "expected a number; was a level of confidence"),
        ("price > 1e999", 8, "expected a number below 1e308"),
        ("price > and", 8, "expected a field, a number or `(`; was 'and'"),
        ("crosses_above price", 14, "expected `(`; was 'price'"),
        ("crosses_above(price 1)", 20, "expected `,`; was '1'"),
        ("crosses_above(rsi_h1, 30", 24, "expected `)`; was the end"),
        ("crosses_above(rsi_h1, )", 22, "expected a field or a number; was ')'"),
        ("crosses_above(rsi_h1, -rsi_h1)", 23, "expected a number; was 'rsi_h1'"),
        ("crosses_above(rsi_h1, ema9_m5)", 22, "expected a field of h1"),
        ("crosses_above(price, 3)", 21, "expected a field of candles, as rsi_h1 or ema9_h1"),
        ("crosses_above(rsi_h1, age_s)", 22, "expected a number, price, or a field of candles"),
        ("crosses_above(rsi_h1, low)", 22, "expected a number, price, or a field of candles"),
        ("crosses_above(candles_h1, 3)", 14, "expected a number, price, or a field of candles"),
        ("price > \u0661", 8, "expected a field, a number or a sign; was '\u0661'"),
    ],
)
def test_an_error_names_the_place(text: str, at: int, message: str) -> None:
    with pytest.raises(ConditionError) as caught:
        parse_condition(text)
    assert caught.value.at == at
    assert str(caught.value).startswith(f"at character {at + 1}: {message}")


def test_the_suggested_field_is_one_that_the_condition_may_have() -> None:
    with pytest.raises(ConditionError, match="did you mean rsi_h4\\?"):
        parse_condition("rsi_h44 > 30", ALL_FIELDS)
    with pytest.raises(ConditionError, match="did you mean rsi_h1\\?"):
        parse_condition("rsi_h11 > 30")


def test_length_depth_and_cost_are_bounded() -> None:
    deep = "(" * DEPTH_MAX + "price > 1" + ")" * DEPTH_MAX
    wide = " or ".join(["price > 1"] * (PARTS_MAX // 3))
    assert parse_condition(" " * (TEXT_MAX - len(deep)) + wide[:9]) == parse_condition(wide[:9])
    parse_condition(wide)
    for text, part in (
        (f"({deep})", "nesting"),
        ("not " * (DEPTH_MAX + 1) + "price > 1", "nesting"),
        (f"{'-' * (DEPTH_MAX + 1)}1 > 0", "nesting"),
        (f"{wide} or 1 > price", "in all"),
        (" " * TEXT_MAX + "p", "characters"),
    ):
        with pytest.raises(ConditionError, match=part):
            parse_condition(text)


def test_fields_in_crossings_are_bounded() -> None:
    names = [
        f"{name}_{tf}" for tf in ("m1", "h1") for name in ("rsi", "atr", "macd", "ema9", "ema21")
    ]
    crossings = [f"crosses_above({name}, 1)" for name in names]
    most = " or ".join(crossings[:CROSSED_MAX])
    parse_condition(f"{most} or {crossings[0]}")
    with pytest.raises(ConditionError, match="at most 8 different fields in crossings") as caught:
        parse_condition(f"{most} or {crossings[CROSSED_MAX]}")
    assert caught.value.at == len(f"{most} or ")


def test_every_field_is_read() -> None:
    for name, field in ALL_FIELDS.items():
        text = f"{name} >= {'low' if field.is_level else '1'}"
        read = parse_condition(text, ALL_FIELDS)
        assert fields_in(read) == (name,)
        if name in FIELDS:
            assert parse_condition(text) == read
        else:
            with pytest.raises(ConditionError, match="at character 1: screens have"):
                parse_condition(text)


def test_a_crossing_compares_the_newest_candle_with_the_one_before() -> None:
    h1 = Timeframe.H1
    rsi, price, ema = FieldOf("rsi_h1"), FieldOf("price"), FieldOf("ema9_h1")
    assert parse_condition("crosses_below(rsi_h1, 30)") == Junction(
        "and",
        (
            Comparison(">=", BeforeOf("rsi_h1", h1), NumberOf(30.0)),
            Comparison("<", rsi, NumberOf(30.0)),
        ),
    )
    read = parse_condition("crosses_above(price, ema9_h1)")
    assert read == Junction(
        "and",
        (
            Comparison("<=", BeforeOf("price", h1), BeforeOf("ema9_h1", h1)),
            Comparison(">", price, ema),
        ),
    )
    assert fields_in(read) == ("price", "ema9_h1")
    parse_condition("crosses_above(macd_h1, -0.5) and not CROSSES_BELOW(0, macd_histogram_h1)")
