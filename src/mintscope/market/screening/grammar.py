"""The grammar of conditions on tokens, and the fields that they can use.

Conditions as text: `liquidity > 100000 and rsi_h1 < 30 and price > ema200_h1`.

::

    condition   alternative
    alternative conjunction { "or" conjunction }
    conjunction negation { "and" negation }
    negation    "not" negation | comparison
    comparison  sum [ ("<" | "<=" | ">" | ">=" | "=" | "!=") sum ]
    sum         product { ("+" | "-") product }
    product     factor { ("*" | "/") factor }
    factor      "-" factor | number | field | "low" | "medium" | "high" | "(" alternative ")"
                | ("crosses_above" | "crosses_below") "(" operand "," operand [ "," count ] ")"
    operand     [ "-" ] number | field
    count       "1" | "2" | "3" | "4" | "5"

A crossing happens between the newest candle and the one before it.  With a count of n, it may end
at any of the n newest candles.

Case does not matter, and `==` means `=`.  The length, the depth and the number of parts are
bounded, so the time to parse and evaluate a condition is, too.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from enum import Enum
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple, TypeAlias

from mintscope.market.engine.kernels import AGES
from mintscope.market.timeframe import BY_NAME, TIMEFRAMES, AnyFrame, AskedFrame


class ScreenField(NamedTuple):
    """A field that conditions can use, such as `rsi_h1`.

    is_level    whether its values are levels of confidence: low, medium or high
    timeframe   the timeframe of the candles whose values the field has; None: a crossing cannot use
                the field, unless the field is the price
    """

    name: str
    description: str
    is_integer: bool = False
    is_level: bool = False
    timeframe: AnyFrame | None = None


OF_TOKENS: Final = (
    ScreenField("price", "US dollars for one whole token"),
    ScreenField("price_sol", "SOL for one whole token"),
    ScreenField("change_m5", "change of the price over 5 minutes, as a fraction: 0.05 is 5 % up"),
    ScreenField("change_h1", "change over an hour, as a fraction"),
    ScreenField("change_d1", "change over a day, as a fraction; since the first price if younger"),
    ScreenField("volume_h1", "bought and sold within an hour, US dollars"),
    ScreenField("volume_d1", "bought and sold within a day, US dollars"),
    ScreenField("swaps_d1", "swaps of a day that set the price", is_integer=True),
    ScreenField("traders_m5", "distinct signers of swaps within 5 minutes", is_integer=True),
    ScreenField("pressure_h1", "bought share of the volume of an hour, 0 to 1"),
    ScreenField("market_cap", "price times supply, US dollars"),
    ScreenField("liquidity", "US dollars that stand ready to buy in the pools that agree"),
    ScreenField("age_s", "seconds since the token is tracked", is_integer=True),
    ScreenField("price_age_s", "seconds since a swap set the price", is_integer=True),
    ScreenField("confidence", "how good the price is: low, medium or high", is_level=True),
)
OF_TIMEFRAMES: Final = (
    ("ema9", "EMA of 9 closes, US dollars"),
    ("ema21", "EMA of 21 closes, US dollars"),
    ("ema50", "EMA of 50 closes, US dollars"),
    ("ema200", "EMA of 200 closes, US dollars"),
    ("rsi", "RSI of 14 candles, 0 to 100"),
    ("macd", "EMA of 12 closes minus EMA of 26, US dollars"),
    ("macd_signal", "EMA of 9 of that, US dollars"),
    ("macd_histogram", "MACD minus its signal, US dollars"),
    ("atr", "average true range of 14 candles, US dollars"),
    ("bollinger_upper", "mean of 20 closes plus 2 standard deviations, US dollars"),
    ("bollinger_middle", "mean of 20 closes, US dollars"),
    ("bollinger_lower", "mean of 20 closes minus 2 standard deviations, US dollars"),
)
FIBONACCI: Final = {
    "fib236": 0.236,
    "fib382": 0.382,
    "fib500": 0.5,
    "fib618": 0.618,
    "fib764": 0.764,
}
# Fields that are known for the newest candle only, not for earlier ones.
OF_NEWEST: Final = (
    ("swing_high", "highest price of 100 candles, US dollars"),
    ("swing_low", "lowest price of 100 candles, US dollars"),
    *(
        (name, f"price above the Fibonacci level {part}, as a fraction: 0.01 is 1 % above it")
        for name, part in FIBONACCI.items()
    ),
    ("candles", "candles since tracking began, the open one included"),
)


def _fields(timeframes: Iterable[AnyFrame]) -> Iterator[ScreenField]:
    for timeframe in timeframes:
        for name, description in OF_TIMEFRAMES:
            text = f"{description}, of {timeframe}"
            yield ScreenField(f"{name}_{timeframe}", text, timeframe=timeframe)
        for name, description in OF_NEWEST:
            text = f"{description}, of {timeframe}"
            yield ScreenField(f"{name}_{timeframe}", text, is_integer=name == "candles")


FIELDS: Final = {field.name: field for field in (*OF_TOKENS, *_fields(TIMEFRAMES))}
# Conditions on one token, of alerts and backtests, may have all of these fields; conditions on the
# list have FIELDS only.
ALL_FIELDS: Final = FIELDS | {field.name: field for field in _fields(AskedFrame)}
LEVELS: Final = {"low": 0.0, "medium": 1.0, "high": 2.0}
LEVEL_NAMES: Final = tuple(LEVELS)
SIMILAR: Final = 0.5  # least similarity of two names, 0 to 1


def before(name: str, timeframe: AnyFrame, age: int = 1) -> str:
    """Return a name for the values of the field *name* from *age* candles of *timeframe* ago."""
    return f"{name} before {timeframe}" if age == 1 else f"{name} before {timeframe} {age}"


def read_before(name: str) -> "BeforeOf | None":
    """Return the field and the earlier candle that *name* stands for; None for a plain field.

    name   a name from `before`, such as `rsi_h1 before h1`
    """
    field, _, of_candle = name.partition(" before ")
    if not of_candle:
        return None
    timeframe, _, age = of_candle.partition(" ")
    return BeforeOf(field, BY_NAME[timeframe], int(age or 1))


def similar_field(name: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that is most similar to *name*; None if none is similar."""
    # A client writes the name, and difflib takes longer for a longer one.
    shown = name[:SHOWN_MAX].lower()
    return next(iter(get_close_matches(shown, list(known), n=1, cutoff=SIMILAR)), None)


TEXT_MAX: Final = 1_000
DEPTH_MAX: Final = 30
PARTS_MAX: Final = 60
CROSSED_MAX: Final = 8  # fields in crossings: each takes 20 ms and 5 MB with 100,000 tokens
SHOWN_MAX: Final = 30  # characters of the text that a message quotes
TOKEN: Final = re.compile(
    r"(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9_]*)"
    r"|(?P<mark><=|>=|!=|==|[<>=()+\-*/,])",
    re.ASCII,
)
SPACE: Final = re.compile(r"[ \t\r\n]*")
COMPARISONS: Final = ("<", "<=", ">", ">=", "=", "!=")
WORDS: Final = ("and", "or", "not")
CROSSINGS: Final = {"crosses_above": ("<=", ">"), "crosses_below": (">=", "<")}  # before, now


class ConditionError(ValueError):
    """A text is not a condition; the message states what was expected, and where.

    at   the number of characters before the error
    """

    def __init__(self, message: str, at: int) -> None:
        super().__init__(f"at character {at + 1}: {message}")
        self.at = at


class Kind(Enum):
    """The kind of a part of a condition: a number, a level of confidence or a comparison."""

    NUMBER = "a number"
    LEVEL = "a level of confidence"
    TRUTH = "a comparison"


class NumberOf(NamedTuple):
    """A number in a condition; a level of confidence is its number in LEVELS."""

    value: float


class FieldOf(NamedTuple):
    """The newest value of a field in a condition."""

    name: str


class BeforeOf(NamedTuple):
    """The value that a field had *age* candles of a timeframe ago, in a condition."""

    name: str
    timeframe: AnyFrame
    age: int = 1


class Arithmetic(NamedTuple):
    """An operation on two numbers in a condition; *mark* is one of + - * /."""

    mark: str
    left: "Value"
    right: "Value"


class Comparison(NamedTuple):
    """A comparison of two numbers, or two confidence levels; *mark* is one of COMPARISONS."""

    mark: str
    left: "Value"
    right: "Value"


class Negation(NamedTuple):
    """The condition `not part`, which is true if *part* is false."""

    part: "Condition"


class Junction(NamedTuple):
    """Conditions of which all must be true (*word* is "and"), or at least one ("or")."""

    word: str
    parts: "tuple[Condition, ...]"


Value: TypeAlias = NumberOf | FieldOf | BeforeOf | Arithmetic
Condition: TypeAlias = Comparison | Negation | Junction


class Token(NamedTuple):
    """A token of a condition's text, at position *at*; *kind* is number, word, mark or end."""

    kind: str
    text: str
    at: int


class _Part(NamedTuple):
    """A parsed part of a condition, its kind, and its position in the text."""

    read: "Value | Condition"
    kind: Kind
    at: int


def parse_condition(text: str, known: Mapping[str, ScreenField] = FIELDS) -> Condition:
    """Return the condition that *text* states, such as `rsi_h1 < 30`.

    known   the fields that it may use, by name

    Raises ConditionError if it is not a condition.
    """
    if len(text) > TEXT_MAX:
        raise ConditionError(f"expected at most {TEXT_MAX} characters, were {len(text)}", TEXT_MAX)
    reader = _Reader(_tokens(text), known)
    part = reader.alternative()
    end = reader.next
    if end.kind != "end":
        raise _unexpected(end, "the end, `and` or `or`")
    # If the text is no condition, the message names its start.
    return _truth(part._replace(at=0))


def fields_in(part: "Value | Condition") -> tuple[str, ...]:
    """Return the name of each field in *part*, once, in the order in which the fields appear."""
    names = (each.name for each in values_in(part) if isinstance(each, FieldOf))
    return tuple(dict.fromkeys(names))


def crossed_in(part: "Value | Condition") -> set[tuple[str, AnyFrame]]:
    """Return the fields of which *part* of a condition uses earlier values, with the timeframe."""
    return {(each.name, each.timeframe) for each in values_in(part) if isinstance(each, BeforeOf)}


def values_in(part: "Value | Condition") -> "list[FieldOf | BeforeOf]":
    """Return each use of a field in *part* of a condition, in order; a field can occur again."""
    match part:
        case FieldOf() | BeforeOf():
            return [part]
        case NumberOf():
            return []
        case Negation(inner):
            return values_in(inner)
        case Junction(parts=parts):
            return [each for one in parts for each in values_in(one)]
        case Arithmetic(left=left, right=right) | Comparison(left=left, right=right):
            return values_in(left) + values_in(right)


def _tokens(text: str) -> list[Token]:
    found: list[Token] = []
    at = _behind_space(text, 0)
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ConditionError(f"expected a field, a number or a sign; was {text[at]!r}", at)
        assert match.lastgroup is not None
        found.append(Token(match.lastgroup, match[0], at))
        at = _behind_space(text, match.end())
    return [*found, Token("end", "", len(text))]


def _behind_space(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    return at if space is None else space.end()


class _Reader:
    """Parses the tokens of a condition in order, with one method for each rule of the grammar."""

    def __init__(self, tokens: list[Token], known: Mapping[str, ScreenField]) -> None:
        self._tokens = tokens
        self._known = known
        self._place = 0
        self._depth = 0
        self._parts = 0
        self._crossed: set[tuple[str, AnyFrame]] = set()

    @property
    def next(self) -> Token:
        return self._tokens[self._place]

    def alternative(self) -> _Part:
        return self._junction("or", self._conjunction)

    def _conjunction(self) -> _Part:
        return self._junction("and", self._negation)

    def _junction(self, word: str, read: Callable[[], _Part]) -> _Part:
        first = read()
        if not self._is_word(word):
            return first
        parts = [_truth(first)]
        while self._is_word(word):
            self._take()
            parts.append(_truth(read()))
        return _Part(Junction(word, tuple(parts)), Kind.TRUTH, first.at)

    def _negation(self) -> _Part:
        if not self._is_word("not"):
            return self._comparison()
        at = self._take().at
        with self._deeper(at):
            return _Part(Negation(_truth(self._negation())), Kind.TRUTH, at)

    def _comparison(self) -> _Part:
        left = self._sum()
        mark = self.next
        if not _is_comparison(mark):
            return left
        self._take()
        right = self._sum()
        _expect_alike(left, right)
        if _is_comparison(self.next):
            raise _unexpected(self.next, "`and`: comparisons are not chained")
        text = mark.text.replace("==", "=")
        compared = Comparison(text, _value(left), _value(right))
        self._count(mark)
        return _Part(compared, Kind.TRUTH, left.at)

    def _sum(self) -> _Part:
        return self._arithmetic(("+", "-"), self._product)

    def _product(self) -> _Part:
        return self._arithmetic(("*", "/"), self._factor)

    def _arithmetic(self, marks: tuple[str, ...], read: Callable[[], _Part]) -> _Part:
        left = read()
        while self.next.kind == "mark" and self.next.text in marks:
            mark = self._take()
            right = read()
            both = Arithmetic(mark.text, _number(left), _number(right))
            self._count(mark)
            left = _Part(both, Kind.NUMBER, left.at)
        return left

    def _factor(self) -> _Part:
        token = self._take()
        self._count(token)
        if token.kind == "number":
            return _Part(NumberOf(_float(token)), Kind.NUMBER, token.at)
        if token.kind == "word" and token.text.lower() in CROSSINGS:
            return self._crossing(token)
        if token.kind == "word":
            return _word(token, self._known)
        if token.text == "-":
            with self._deeper(token.at):
                negative = _negative(_number(self._factor()))
            return _Part(negative, Kind.NUMBER, token.at)
        if token.text != "(":
            raise _unexpected(token, "a field, a number or `(`")
        with self._deeper(token.at):
            inner = self.alternative()
        if self.next.text != ")":
            raise _unexpected(self.next, f"`)` for the `(` at character {token.at + 1}")
        self._take()
        return inner

    def _crossing(self, word: Token) -> _Part:
        before_mark, now_mark = CROSSINGS[word.text.lower()]
        self._expect("(")
        first = self._operand()
        self._expect(",")
        second = self._operand()
        candles = 1
        if self.next.text == ",":
            self._take()
            candles = self._candles()
        self._expect(")")
        timeframe = _common_timeframe(first, second)
        for part in (first, second):
            if isinstance(part.read, FieldOf):
                self._crossed.add((part.read.name, timeframe))
        if len(self._crossed) > CROSSED_MAX:
            raise ConditionError(
                f"expected at most {CROSSED_MAX} different fields in crossings", word.at
            )
        # The newest candle first: each pair below is a candle and the candle before it.
        values = [
            [_before(_value(part), timeframe, age) for part in (first, second)]
            for age in range(candles + 1)
        ]
        crossed = tuple(
            Junction("and", (Comparison(before_mark, *earlier), Comparison(now_mark, *later)))
            for later, earlier in pairwise(values)
        )
        read = crossed[0] if candles == 1 else Junction("or", crossed)
        return _Part(read, Kind.TRUTH, word.at)

    def _candles(self) -> int:
        """Parse the last argument of a crossing, a number of candles from 1 to AGES.

        Each candle counts as one of the PARTS_MAX parts of a condition.
        """
        token = self._take()
        if not token.text.isdecimal() or not 1 <= int(token.text) <= AGES:
            raise _unexpected(token, f"a number of candles from 1 to {AGES}")
        for _ in range(int(token.text)):
            self._count(token)
        return int(token.text)

    def _operand(self) -> _Part:
        token = self._take()
        self._count(token)
        if token.text == "-":
            number = self._take()
            if number.kind != "number":
                raise _unexpected(number, "a number")
            return _Part(NumberOf(-_float(number)), Kind.NUMBER, token.at)
        if token.kind == "number":
            return _Part(NumberOf(_float(token)), Kind.NUMBER, token.at)
        if token.kind != "word":
            raise _unexpected(token, "a field or a number")
        return _word(token, self._known)

    def _expect(self, mark: str) -> None:
        token = self._take()
        if token.text != mark:
            raise _unexpected(token, f"`{mark}`")

    @contextmanager
    def _deeper(self, at: int) -> Iterator[None]:
        # A client writes the text: each level takes several frames of the interpreter's stack.
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise ConditionError(f"expected at most {DEPTH_MAX} levels of nesting", at)
        try:
            yield
        finally:
            self._depth -= 1

    def _take(self) -> Token:
        token = self.next
        # The last token stays, so that `next` always finds one.
        if token.kind != "end":
            self._place += 1
        return token

    def _count(self, token: Token) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise ConditionError(
                f"expected at most {PARTS_MAX} fields, numbers and signs in all", token.at
            )

    def _is_word(self, word: str) -> bool:
        return self.next.kind == "word" and self.next.text.lower() == word


def _common_timeframe(first: _Part, second: _Part) -> AnyFrame:
    """Return the timeframe of the two values of which one crosses the other.

    One of them may be the price or a number, which have no timeframe.  Raises ConditionError if
    both have none, or if their timeframes differ.
    """
    found: AnyFrame | None = None
    for part in (first, second):
        if isinstance(part.read, NumberOf) and part.kind is Kind.NUMBER:
            continue
        field = ALL_FIELDS[part.read.name] if isinstance(part.read, FieldOf) else None
        if field is None or (field.timeframe is None and field.name != "price"):
            raise ConditionError(
                "expected a number, price, or a field of candles, as rsi_h1", part.at
            )
        if found is not None and field.timeframe not in {None, found}:
            raise ConditionError(f"expected a field of {found}", part.at)
        found = found or field.timeframe
    if found is None:
        raise ConditionError("expected a field of candles, as rsi_h1 or ema9_h1", second.at)
    return found


def _before(value: Value, timeframe: AnyFrame, age: int) -> Value:
    if age == 0 or not isinstance(value, FieldOf):
        return value
    return BeforeOf(value.name, timeframe, age)


def _is_comparison(token: Token) -> bool:
    return token.kind == "mark" and token.text.replace("==", "=") in COMPARISONS


def _word(token: Token, known: Mapping[str, ScreenField]) -> _Part:
    name = token.text.lower()
    if name in LEVELS:
        return _Part(NumberOf(LEVELS[name]), Kind.LEVEL, token.at)
    field = known.get(name)
    if field is not None:
        kind = Kind.LEVEL if field.is_level else Kind.NUMBER
        return _Part(FieldOf(name), kind, token.at)
    if name in WORDS:
        raise _unexpected(token, "a field, a number or `(`")
    if name in ALL_FIELDS:
        of_candles, _, timeframe = name.rpartition("_")
        widths = ", ".join(TIMEFRAMES)
        raise ConditionError(f"screens have {of_candles} of {widths}; was {timeframe}", token.at)
    similar = similar_field(name, known)
    hint = "" if similar is None else f"; did you mean {similar}?"
    raise ConditionError(f"unknown field {token.text[:SHOWN_MAX]!r}{hint}", token.at)


def _float(token: Token) -> float:
    value = float(token.text.replace("_", ""))
    # A number such as 1e999 is read as infinity.
    if not isfinite(value):
        raise ConditionError("expected a number below 1e308", token.at)
    return value


def _truth(part: _Part) -> Condition:
    if part.kind is not Kind.TRUTH:
        raise ConditionError(
            f"expected a comparison, as `price > 1`; was {part.kind.value}", part.at
        )
    return part.read  # type: ignore[return-value]  # the kind says so


def _number(part: _Part) -> Value:
    if part.kind is not Kind.NUMBER:
        raise ConditionError(f"expected a number; was {part.kind.value}", part.at)
    return part.read  # type: ignore[return-value]  # the kind says so


def _negative(value: Value) -> Value:
    if isinstance(value, NumberOf):
        return NumberOf(0.0 - value.value)  # the same as the value of the expression below
    # The values have no negation: -x is 0 - x.
    return Arithmetic("-", NumberOf(0.0), value)


def _value(part: _Part) -> Value:
    if part.kind is Kind.TRUTH:
        raise ConditionError(f"expected a number; was {part.kind.value}", part.at)
    return part.read  # type: ignore[return-value]  # the kind says so


def _expect_alike(left: _Part, right: _Part) -> None:
    """Raise ConditionError unless *left* and *right* are both numbers or both confidence levels."""
    for part in (left, right):
        _value(part)
    if left.kind is not right.kind:
        raise ConditionError(f"expected {left.kind.value}; was {right.kind.value}", right.at)


def _unexpected(token: Token, expected: str) -> ConditionError:
    was = "the end" if token.kind == "end" else repr(token.text[:SHOWN_MAX])
    return ConditionError(f"expected {expected}; was {was}", token.at)
