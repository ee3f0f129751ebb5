"""The indicators by name, and the parser of requested indicators."""

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mintscope.market.engine.given import Floats
from mintscope.market.indicators.bars import Bars

ASKED: Final = re.compile(r"([a-zA-Z]+)(?:\(([^()]*)\))?")
NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})?")

Compute = Callable[..., Floats]


class Parameter(NamedTuple):
    """A parameter of an indicator: an integer, unless *is_fraction*.

    usual         the default value
    least, most   the bounds of the allowed values
    """

    name: str
    usual: float
    least: float
    most: float
    is_fraction: bool = False

    @property
    def expected(self) -> str:
        """The number type and the range of the parameter, as text."""
        kind = "a number" if self.is_fraction else "an integer"
        return f"{kind} from {self.least:g} to {self.most:.12g}"


class Indicator(NamedTuple):
    """An indicator that clients can request, with any values of its parameters.

    parameters    its parameters, in order
    outputs       the names of its values; empty if it has a single value
    reach         returns, for values of the parameters, the number of older candles that an exact
                  value needs, unless the candles begin with the token's first one
    description   describes the indicator to clients
    compute       returns its values for candles and values of the parameters
    reads         the number of candles that are read before those that *reach* requires
    """

    name: str
    parameters: Sequence[Parameter]
    outputs: Sequence[str]
    reach: Callable[..., int]
    description: str
    compute: Compute
    reads: int = 0

    @property
    def usual(self) -> str:
        """The indicator with its default parameters, as in a request, for example `adx(14)`."""
        values = ",".join(f"{each.usual:.12g}" for each in self.parameters)
        return f"{self.name}({values})"


class AskedIndicator(NamedTuple):
    """An indicator as requested by a client, with the values of its parameters.

    text   the indicator as written in the request, such as `sma(50)`
    """

    text: str
    indicator: Indicator
    values: Sequence[Any]

    @property
    def reach(self) -> int:
        """The number of candles before a given one that an exact value needs."""
        return self.indicator.reach(*self.values)

    @property
    def lead(self) -> int:
        """The number of older candles to read, so that the first candle of a page is exact."""
        return self.reach + self.indicator.reads

    def of(self, bars: Bars) -> Floats:
        """Return the values of this indicator for each of *bars*; NaN: no value.

        There is a row for each candle: a number, or a number for each output.
        """
        found = self.indicator.compute(bars, *self.values)
        if not bars.is_whole:
            found[: self.reach] = np.nan  # exact values need older candles, which are not there
        return found

    def newest(self, bars: Bars, count: int) -> Floats:
        """Return the values of this indicator for each of *bars*; only the newest must be exact.

        All but the newest *count* rows can be NaN, although *bars* may have the candles for them.
        """
        left_out = max(0, len(bars.times) - count - self.lead)
        found = self.of(bars.without_oldest(left_out))
        before = np.full((left_out, *found.shape[1:]), np.nan)
        return np.concatenate([before, found])


INDICATORS: Final[dict[str, Indicator]] = {}


def indicator(
    name: str,
    *parameters: Parameter,
    reach: Callable[..., int],
    outputs: Sequence[str] = (),
    reads: int = 0,
) -> Callable[[Compute], Compute]:
    """Return a decorator that registers a function of bars and parameters as an indicator.

    The docstring of the function describes it to clients.
    """

    def add(compute: Compute) -> Compute:
        description = " ".join((compute.__doc__ or "").split())
        INDICATORS[name] = Indicator(name, parameters, outputs, reach, description, compute, reads)
        return compute

    return add


def period(usual: int, name: str = "period", *, most: int = 200, least: int = 2) -> Parameter:
    """Return a parameter of an indicator that is a number of candles.

    usual         the default value
    least, most   the bounds of the allowed values
    """
    return Parameter(name, usual, least, most)


def fraction(name: str, usual: float, least: float, most: float) -> Parameter:
    """Return the parameter *name* of an indicator, whose values may be fractions.

    usual         the default value
    least, most   the bounds of the allowed values
    """
    return Parameter(name, usual, least, most, is_fraction=True)


def read(text: str) -> AskedIndicator:
    """Return the indicator that *text* names, such as `sma`, `sma(50)` or `macd(5,35,5)`.

    A parameter that is left out has its default.  Raises ValueError if *text* names no indicator,
    or if it has too many parameters, or values that are not allowed.
    """
    match = ASKED.fullmatch(text)
    found = INDICATORS.get(match[1]) if match else None
    if match is None or found is None:
        raise ValueError(f"expected an indicator such as rsi or sma(20); was {text[:50]!r}")
    cells = [] if match[2] is None else [cell.strip() for cell in match[2].split(",")]
    if len(cells) > len(found.parameters):
        names = ", ".join(each.name for each in found.parameters)
        raise ValueError(
            f"{found.name}: expected at most the parameters {names}; was {text[:50]!r}"
        )
    values: list[float] = [
        _value(found, parameter, cells[n]) if n < len(cells) else _usual(parameter)
        for n, parameter in enumerate(found.parameters)
    ]
    if found.name == "macd" and values[0] >= values[1]:
        raise ValueError(f"macd: expected fast below slow; was {text[:50]!r}")
    return AskedIndicator(text, found, values)


def _usual(parameter: Parameter) -> float:
    return parameter.usual if parameter.is_fraction else int(parameter.usual)


def _value(found: Indicator, parameter: Parameter, cell: str) -> float:
    is_number = NUMBER.fullmatch(cell) and (parameter.is_fraction or "." not in cell)
    if not is_number or not parameter.least <= float(cell) <= parameter.most:
        raise ValueError(
            f"{found.name}: {parameter.name}: expected {parameter.expected}; was {cell[:20]!r}"
        )
    return float(cell) if parameter.is_fraction else int(cell)
