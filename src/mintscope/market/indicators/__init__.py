"""Indicators with parameters, candle by candle: `sma(20)`, `adx(14)`, `supertrend(10,3)`.

Each indicator is one function in `functions`, decorated with its name and its parameters.  The
docstring of the function describes the indicator to clients.  The API and its documents read all
indicators from INDICATORS.
"""

from mintscope.market.indicators import functions
from mintscope.market.indicators.bars import Bars
from mintscope.market.indicators.registry import INDICATORS, AskedIndicator, read

__all__ = ["INDICATORS", "AskedIndicator", "Bars", "functions", "read"]
